"""Make the tables of the pages again, from the results that come with the package: ``python docs/tables.py``."""

from __future__ import annotations

from pathlib import Path

from intertwine.report import with_tables

if __name__ == "__main__":
    for page in sorted(Path(__file__).parent.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        made = with_tables(text)
        if made != text:
            page.write_text(made, encoding="utf-8")
            print(f"written: {page}")
