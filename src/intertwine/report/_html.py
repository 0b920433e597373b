"""One self-contained HTML file from sections of text, tables and pictures.

A page loads nothing: style, script and pictures are inside, and its content security policy forbids the browser to
fetch anything. All text is escaped; only ``Picture.svg`` is markup.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from .. import __version__
from .._checked import checked
from .._files import replace_file
from ..errors import InputError, StorageError

if TYPE_CHECKING:
    from jinja2 import Environment

SCRIPTS = ("draw.js", "picker.js", "page.js")
Tone = Literal["", "good", "bad", "quiet"]


@checked
@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        label: its heading.
        unit: shown next to the label and not repeated in the cells.
        align: right for numbers.
        wrap: whether its cells may wrap.
        title: a tooltip of the heading.
    """

    label: str
    unit: str = ""
    align: Literal["left", "right"] = "left"
    title: str = ""
    wrap: bool = False


@checked
@dataclass(frozen=True)
class TableCell:
    """One cell.

    Attributes:
        text: the visible text.
        value: the sort key, if it is not the text; NaN comes last in both directions.
        note: smaller, fainter text after it.
        title: a tooltip of the cell.
        tone: good, bad or quiet. The text must say the same without the color.
    """

    text: str
    value: float | str | None = None
    note: str = ""
    title: str = ""
    tone: Tone = ""

    @property
    def sort_key(self) -> str | None:
        """The sort key for the script: None for the text itself, the empty string for no value."""
        if isinstance(self.value, float | int):
            return "" if math.isnan(self.value) else f"{self.value:.9g}".replace("inf", "Infinity")
        return self.value


@checked
@dataclass(frozen=True)
class DataTable:
    """A table that the reader can sort; the first cell of a row names the row."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[TableCell]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InputError(
                    "DataTable",
                    expected=f"{len(self.columns)} cells per row, one per column",
                    got=f"{len(row)} in {[cell.text for cell in row]}",
                )


@checked
@dataclass(frozen=True)
class Picture:
    """A figure.

    Attributes:
        svg: the markup of one ``<svg>``, as :func:`inline_svg` returns it. It is not escaped, so never build it from
            unescaped text.
        caption: what it shows and how to read it.
        card: whether its background stays white in dark mode, for pictures with fixed colors.
    """

    kind: ClassVar[str] = "picture"
    svg: str
    caption: str
    card: bool = False


@checked
@dataclass(frozen=True)
class Gallery:
    """Pictures side by side if there is room, one below the other on a phone."""

    kind: ClassVar[str] = "gallery"
    pictures: Sequence[Picture]


@checked
@dataclass(frozen=True)
class Facts:
    """Names with their values; ``large`` for the few that matter most."""

    kind: ClassVar[str] = "facts"
    items: Sequence[tuple[str, str]]
    large: bool = False


@checked
@dataclass(frozen=True)
class Note:
    """A remark, or a warning that the reader must not miss."""

    kind: ClassVar[str] = "note"
    text: str
    heading: str = ""
    warning: bool = False


@checked
@dataclass(frozen=True)
class Prose:
    """A paragraph; ``quiet`` for explanations that most readers skip."""

    kind: ClassVar[str] = "prose"
    text: str
    quiet: bool = False


@checked
@dataclass(frozen=True)
class Code:
    """The text of a program, as it is."""

    kind: ClassVar[str] = "code"
    text: str


@checked
@dataclass(frozen=True)
class Heading:
    """A title inside a section, with a remark next to it."""

    kind: ClassVar[str] = "heading"
    text: str
    remark: str = ""


@checked
@dataclass(frozen=True)
class LayerPicker:
    """The layers of an audit, for the reader to pick one; see ``audit_layers``."""

    kind: ClassVar[str] = "picker"
    layers: Sequence[Mapping[str, Any]]


Block = DataTable | Picture | Gallery | Facts | Note | Prose | Code | Heading | LayerPicker


@checked
@dataclass(frozen=True)
class Section:
    """Blocks under a title. A folded section shows only its title until the reader opens it."""

    title: str
    blocks: Sequence[Block]
    folded: bool = False


@checked
def page(
    title: str,
    sections: Sequence[Section],
    *,
    subtitle: str = "",
    summary: Sequence[Block] = (),
    data: Mapping[str, Any] | None = None,
    footer: str = "",
) -> str:
    """One self-contained HTML document.

    Args:
        title: the name of the document.
        sections: its parts, in order.
        subtitle: one line below the title.
        summary: blocks before the first section.
        data: numbers for programs, embedded as JSON in the element ``#data``; NaN and infinities become null.
        footer: the last line.

    Example:
        >>> "&lt;b&gt;" in page("<b>", [Section("Results", [Prose("None yet.")])])
        True
    """
    sections = [_finite_pickers(section) for section in sections]
    picks = any(isinstance(block, LayerPicker) for section in sections for block in section.blocks)
    style, script = asset("page.css"), "".join(asset(name) for name in (SCRIPTS if picks else SCRIPTS[-1:]))
    text = (
        environment()
        .get_template("page.html")
        .render(
            title=title,
            subtitle=subtitle,
            summary=summary,
            sections=sections,
            data=None if data is None else finite(data),
            footer=footer,
            style=style,
            script=script,
            policy=policy(script),
        )
    )
    return text.replace("\x00", "\ufffd")  # the only character that HTML cannot represent


def fragment(blocks: Sequence[Block]) -> str:
    """Blocks without a page around them, for a notebook, which has a style of its own."""
    template = environment().from_string('{% from "blocks.html" import blocks %}{{ blocks(items) }}')
    return template.render(items=blocks).replace("\x00", "\ufffd")


def policy(script: str, **more: str) -> str:
    """The content security policy of a page with this script: everything else is forbidden unless ``more`` allows it.

    Args:
        script: the text of the script that runs.
        more: further directives, with underscores for dashes.
    """
    allowed = {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": "'unsafe-inline'",  # for the style attributes inside pictures
        "script-src": f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'",
        "base-uri": "'none'",
        "form-action": "'none'",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


def signature(what: str = "") -> str:
    """The footer of a page with data: what it is, who wrote it, and where its numbers are."""
    written = f"{what}, written" if what else "Written"
    return (
        f"{written} by intertwine {__version__}. This file loads nothing from the network; its numbers are in the "
        "element #data as JSON."
    )


@checked
def write_page(path: str | Path, text: str) -> Path:
    """Write the page to a file, atomically, and return its path."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
    except OSError as error:
        raise StorageError(
            "write_page",
            expected="a file in a writable folder",
            got=f"{path} ({error.strerror or error})",
        ) from error
    return path


def _finite_pickers(section: Section) -> Section:
    blocks = [LayerPicker(finite(b.layers)) if isinstance(b, LayerPicker) else b for b in section.blocks]
    return replace(section, blocks=blocks)


@functools.cache
def environment() -> Environment:
    """The jinja2 environment of the templates."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("intertwine.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment


def asset(name: str) -> str:
    """The text of a file that pages embed."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def finite(value: Any) -> Any:
    """The value as JSON can represent it: None for NaN and infinities, text for unknown objects."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value if isinstance(value, str | int | bool | None) else str(value)
