"""One self-contained HTML file from sections of text, tables and pictures.

A page loads nothing: style, script and pictures are inside, and its content security policy forbids the browser to
fetch anything. All text is escaped; only ``Picture.svg`` is taken as markup.
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
        unit: shown beside the label, and not repeated in the cells.
        align: right for numbers.
        wrap: whether its cells may take several lines.
        title: an explanation, shown when pointing at the heading.
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
        text: what is read.
        value: what is sorted by, where that is not the text; cells with NaN come last in either direction.
        note: smaller and fainter, behind the text.
        title: an explanation, shown when pointing at the cell.
        tone: good, bad or quiet; the text must say the same without the color.
    """

    text: str
    value: float | str | None = None
    note: str = ""
    title: str = ""
    tone: Tone = ""

    @property
    def sort_key(self) -> str | None:
        """What the script sorts by: None for the text itself, the empty string for nothing."""
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
                    expected=f"{len(self.columns)} cells in each row",
                    got=f"{len(row)} in {[cell.text for cell in row]}",
                    fix="Give one cell for each column.",
                )


@checked
@dataclass(frozen=True)
class Picture:
    """A figure.

    Attributes:
        svg: the markup of one ``<svg>``, as :func:`inline_svg` makes it. It is not escaped: never build it from text
            that was not.
        caption: what is seen, with how to read it.
        card: whether to put white paper behind it in the dark too, for pictures whose colors are fixed.
    """

    kind: ClassVar[str] = "picture"
    svg: str
    caption: str
    card: bool = False


@checked
@dataclass(frozen=True)
class Gallery:
    """Pictures side by side where there is room, one below the other on a phone."""

    kind: ClassVar[str] = "gallery"
    pictures: Sequence[Picture]


@checked
@dataclass(frozen=True)
class Facts:
    """Names with their values. ``large`` is for the few that matter most."""

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
    """A paragraph; ``quiet`` for explanations that are looked up rather than read."""

    kind: ClassVar[str] = "prose"
    text: str
    quiet: bool = False


@checked
@dataclass(frozen=True)
class Heading:
    """A title inside a section, with a remark beside it."""

    kind: ClassVar[str] = "heading"
    text: str
    remark: str = ""


@checked
@dataclass(frozen=True)
class LayerPicker:
    """Layers of an audit, of which the reader picks one; see ``audit_layers``."""

    kind: ClassVar[str] = "picker"
    layers: Sequence[Mapping[str, Any]]


Block = DataTable | Picture | Gallery | Facts | Note | Prose | Heading | LayerPicker


@checked
@dataclass(frozen=True)
class Section:
    """Blocks under a title. A folded section shows its title only until the reader opens it."""

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
    """One HTML document that needs nothing beside itself.

    Args:
        title: the name of the document.
        sections: its parts, in order.
        subtitle: one line below the title.
        summary: what stands before the first section.
        data: numbers for scripts, embedded as JSON in the element ``#data``; NaN and infinities become null.
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
    return text.replace("\x00", "\ufffd")  # the one character that HTML has no way to write


def policy(script: str, **more: str) -> str:
    """What a page with this one script may do: show itself, and nothing else unless it is named.

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


@checked
def write_page(path: str | Path, text: str) -> Path:
    """Write the page under a name of its own and rename, so that a kill leaves the old page or the new one."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
    except OSError as error:
        raise StorageError(
            "write_page",
            expected="a file in a folder that can be written to",
            got=f"{path} ({error.strerror or error})",
            fix="Choose another place, or free space on the disk.",
        ) from error
    return path


def _finite_pickers(section: Section) -> Section:
    blocks = [LayerPicker(finite(b.layers)) if isinstance(b, LayerPicker) else b for b in section.blocks]
    return replace(section, blocks=blocks)


@functools.cache
def environment() -> Environment:
    """The templates of this room."""
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
    """The same value with None for what JSON cannot say."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value if isinstance(value, str | int | bool | None) else str(value)
