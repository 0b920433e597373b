"""A matplotlib figure as compact SVG for a page, without namespaces, in the colors of the page."""

from __future__ import annotations

import io
import re
import warnings
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ..._checked import checked, describe
from ...errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Placeholder colors that become variables of the page's style, which lets pictures follow the page into dark mode. They
# are values that no figure would use for itself.
INK, QUIET, RULE, PAPER = "#010101", "#010102", "#010103", "#010104"
SERIES = tuple(f"#0102{k:02x}" for k in range(1, 7))
_VARIABLES = {
    INK: "currentColor",
    QUIET: "var(--quiet)",
    RULE: "var(--line)",
    PAPER: "var(--paper)",
    **{color: f"var(--series-{k})" for k, color in enumerate(SERIES, 1)},
}
_NUMBER = re.compile(r"-?\d+\.\d+")
_REFERENCE = re.compile(r"(?<=url\(#)[\w.-]+|(?<=^#)[\w.-]+$")  # to an id: inside url(#...), or a whole href
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONG = 500  # a path with more characters is a curve, for which a tenth of a point is precise enough on a screen


@checked
def inline_svg(figure: Figure, *, name: str, title: str) -> str:
    """The figure as one ``<svg>`` element.

    Text stays text, in the font of the page, and the page sets the size. Ids start with ``name``.

    Args:
        figure: the figure.
        name: a word of letters, digits and dashes, unique on the page.
        title: a description for screen readers.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    if not isinstance(figure, Figure):
        raise InputError("inline_svg", expected="a matplotlib figure", got=describe(figure))
    file = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), warnings.catch_warnings():
        # The browser draws the text, so glyphs missing from matplotlib's font do not matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(file.getvalue())
    view_box = root.get("viewBox", "")
    references = [target for e in root.iter() for k, v in e.items() for target in _references(k, v)]
    names = {old: f"{name}-{k}" for k, old in enumerate(dict.fromkeys(references))}
    for element in root.iter():
        _rewrite(element, names)
    _prune(root)
    root.attrib = {"viewBox": view_box, "role": "img", "aria-label": xml_text(title)}
    return ElementTree.tostring(root, encoding="unicode")


def xml_text(text: str) -> str:
    """The text without characters that XML does not allow."""
    return _NOT_XML.sub("\ufffd", text)


def _references(key: str, value: str) -> list[str]:
    return _REFERENCE.findall(value) if _local(key) == "href" or "url(#" in value else []


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _rewrite(element: ElementTree.Element, names: dict[str, str]) -> None:
    """Use short names, few decimals, ids unique to this figure, and the colors of the page."""
    element.tag = _local(element.tag)
    element.tail = None
    if element.tag not in ("text", "tspan"):
        element.text = None
    attributes = {}
    for key, value in element.items():
        key = _local(key)
        if key == "id":
            if value not in names:
                continue
            value = names[value]
        elif _references(key, value):
            value = _REFERENCE.sub(lambda match: names[match[0]], value)
        if key == "style":
            value = _style(value)
        elif key == "d":
            value = _path(value)
        elif key == "transform" and value.startswith("rotate(-0 "):
            continue
        elif key in ("x", "y", "transform", "width", "height"):
            value = _rounded(value, 2)
        attributes[key] = value
    element.attrib = attributes


def _style(style: str) -> str:
    for color, variable in _VARIABLES.items():
        style = style.replace(color, variable)
    kept = [part.strip() for part in style.split(";") if not part.strip().startswith("font-family")]
    return ";".join(part.replace(": ", ":") for part in kept if part)


def _path(path: str) -> str:
    path = " ".join(_rounded(path, 1 if len(path) > _LONG else 2).split())
    # After the first point, a plain pair of numbers already means a line.
    return path if "C" in path or "Q" in path else path.replace(" L ", " ")


def _rounded(text: str, places: int) -> str:
    return _NUMBER.sub(lambda match: f"{float(match[0]):.{places}f}".rstrip("0").rstrip("."), text)


def _prune(element: ElementTree.Element) -> None:
    """Remove elements that draw nothing, groups without effect, and styles that all markers of a group repeat."""
    children: list[ElementTree.Element] = []
    for child in element:
        _prune(child)
        # Nobody reads the metadata here, and a style element would restyle the whole page.
        if child.tag in ("metadata", "style") or child.get("style") == "fill:none":
            continue
        if child.tag in ("g", "defs") and not len(child):
            continue
        children += list(child) if child.tag == "g" and not child.attrib else [child]
    element[:] = children
    styles = {child.get("style") for child in children if child.tag == "use"}
    if element.tag == "g" and len(children) > 1 and len(styles) == 1 and all(child.tag == "use" for child in children):
        element.set("style", styles.pop() or "")
        for child in children:
            child.attrib.pop("style", None)
