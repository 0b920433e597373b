"""The site: Markdown pages and docstrings to HTML that loads nothing from the network."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils.utils.math import latex2mathml
from sphinx.ext.napoleon import GoogleDocstring

import intertwine
from intertwine.report import with_plots, with_tables

if TYPE_CHECKING:
    from docutils import nodes
    from docutils.nodes import Node, TextElement
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.writers.html5 import HTML5Translator

project = "intertwine"
author = "The intertwine authors"
project_copyright = "The intertwine authors, MIT license"
version = release = intertwine.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

smartquotes = False  # ω' is a letter with a prime
highlight_language = "text"  # blocks that name no language are commands and output
pygments_dark_style = "github-dark"
html_theme = "furo"
html_title = f"intertwine {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sphinx = False
# Plots have the colors of the pages that `report` writes: name → color, first for light mode, then for dark mode.
_colors = re.findall(
    r"--(series-\d): (#\w+);", (Path(intertwine.__file__).parent / "report/templates/page.css").read_text("utf-8")
)
LIGHT, DARK = dict(_colors[: len(_colors) // 2]), dict(_colors[len(_colors) // 2 :])
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8", **LIGHT},
    "dark_css_variables": {"color-brand-primary": "#7db3f0", "color-brand-content": "#7db3f0", **DARK},
}
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures stay readable; the text of each argument says what it is
napoleon_custom_sections = ["Shapes", "Equivariance"]
napoleon_use_ivar = True  # else the attributes of a data class appear twice
napoleon_use_rtype = False
suppress_warnings = ["ref.python"]  # two rooms may each have a class of the same name


def public_names(room: str) -> list[tuple[str, object]]:
    """The public names of a room, in any order; of a sub-package, those that its room does not show."""
    module = import_module(f"intertwine.{room}")
    parent = vars(import_module(module.__name__.rpartition(".")[0]))
    # dir, not vars: some rooms import their names on first use
    named = [(n, getattr(module, n)) for n in dir(module) if not n.startswith("_") and n != "annotations"]
    return [(n, v) for n, v in named if not inspect.ismodule(v) and parent.get(n) is not v]


def kinds_of(room: str) -> dict[str, list[str]]:
    """Heading → public names. The headings are the lines of the table in the docstring of the room, in their order.

    A line starts with sub-packages or files, and says what they hold. Other files at the top come first, under what the
    docstring says about them. Rooms without a table have classes, functions and values.
    """
    module = import_module(f"intertwine.{room}")
    text = inspect.getdoc(module) or ""
    public = dict(public_names(room))
    rows = re.findall(r"^    (\S+(?:, \S+)*)  +(\S.*)$", text, re.MULTILINE)
    if not rows:
        return {kind: sorted((n for n in public if kind_of(public[n]) == kind), key=str.lower) for kind in KINDS}
    top = re.search(r"The files at the top (?:define|are) (.+?)\.\s", text)
    headings = {part: heading for parts, heading in rows for part in parts.split(", ")}
    first = top[1] if top else "from other rooms"
    kinds: dict[str, list[str]] = {heading: [] for heading in (first, *headings.values())}
    for name, part in imported_from(Path(str(module.__file__))).items():
        if part and part not in headings and not top:
            raise ValueError(f"intertwine.{room}: {name} comes from {part}, which no line of its docstring names")
        if name in public:
            kinds[headings.get(part, first)].append(name)
    return {f"{heading[0].upper()}{heading[1:]}": names for heading, names in kinds.items()}


def imported_from(face: Path) -> dict[str, str]:
    """Public name → the sub-package or file of the room that it comes from, or "", in the order of the face."""
    imports = [n for n in ast.walk(ast.parse(face.read_text(encoding="utf-8"))) if isinstance(n, ast.ImportFrom)]
    pairs = [(alias.asname, node) for node in imports for alias in node.names if alias.asname]
    return {name: (node.module or "").split(".")[0].lstrip("_") * (node.level == 1) for name, node in pairs}


KINDS = ("Classes", "Functions", "Values")


def kind_of(value: object) -> str:
    """One of ``KINDS``."""
    if isinstance(value, type):
        return "Classes"
    return "Functions" if callable(value) and inspect.isroutine(getattr(value, "__wrapped__", value)) else "Values"


def directive(path: str, value: object) -> list[str]:
    """What documents one public name."""
    kind = kind_of(value)
    if kind == "Classes":
        return [f".. autoclass:: {path}", "   :members:", ""]
    if kind == "Functions":
        return [f".. autofunction:: {path}", ""]
    shown = len(repr(value)) < 100 and "`" not in repr(value) and " at 0x" not in repr(value)
    about = f"``{value!r}``" if shown else f"``{type(value).__name__}``"
    return [f".. py:data:: {path}", "", f"   {about}", ""]


def api_page(room: str) -> str:
    """The directives for every public name of a room by kind, so that a new one appears by itself."""
    public = dict(public_names(room))
    parts = []
    for heading, names in kinds_of(room).items():
        if names:
            lines = [line for name in names for line in directive(f"intertwine.{room}.{name}", public[name])]
            parts += [f"## {heading}", "", "```{eval-rst}", *lines, "```", ""]
    return "\n".join(parts)


def commands_page() -> str:
    """The help texts of all commands."""
    import typer
    from typer.testing import CliRunner

    from intertwine.cli import program

    app = program()

    def help_of(*names: str) -> list[str]:
        text = CliRunner().invoke(app, [*names, "--help"], env={"COLUMNS": "100"}).output.strip()
        return [f"{'#' * (len(names) + 1)} {' '.join(names)}", "", "```", text, "```", ""]

    lines = []
    for name, command in sorted(typer.main.get_command(app).commands.items()):  # type: ignore[attr-defined]
        lines += help_of(name)
        for inner in sorted(getattr(command, "commands", {})):
            lines += help_of(name, inner)
    return "\n".join(lines)


def prepare_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Append what is generated; take the empty line off the ends of examples, which only doctest likes."""
    folder, _, room = name.partition("/")
    if folder == "api" and room != "index":
        source[0] += "\n" + api_page(room)
    elif name == "commands":
        source[0] += "\n" + commands_page()
    source[0] = with_plots(with_tables(source[0]))
    source[0] = re.sub(r"(```python\n.*?)\n+```", r"\1\n```", source[0], flags=re.DOTALL)


def escape_docstring(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Bars and stars of formulas are not markup: |v| is a norm, and a* a name."""
    for at, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...", ".. ")):
            continue
        pieces = re.split(r"(``.*?``|:\w+:`[^`]*`)", line)
        lines[at] = "".join(p if k % 2 else re.sub(r"(?<!\\)\|", r"\\|", p) for k, p in enumerate(pieces))


def skip_member(app: Sphinx, what: str, name: str, value: object, skip: bool, options: object) -> bool | None:
    """Leave out functions of torch that a class only names, and what every layer has for the suite."""
    of_torch = (inspect.getdoc(value) or "").startswith("conv")
    return True if of_torch or name in ("examples", "extra_repr") else None


def find_elsewhere(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: TextElement) -> Node | None:
    """A docstring names a class of another room by its name alone: take the only one there is."""
    name = node.get("reftarget", "")
    objects = env.domains["py"].data["objects"]
    top_level = ("class", "function", "data")  # not methods and attributes
    matches = [full for full, entry in objects.items() if full.endswith(f".{name}") and entry.objtype in top_level]
    if node.get("refdomain") != "py" or len(matches) != 1:
        return None
    domain = env.domains["py"]
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", matches[0], node, text)


def inline_math(self: HTML5Translator, node: nodes.math) -> None:
    """An equation in a line, as MathML: every browser of today draws it, without scripts and fonts."""
    from docutils.nodes import SkipNode

    self.body.append(latex2mathml.tex2mathml(node.astext(), as_block=False))
    raise SkipNode


def block_math(self: HTML5Translator, node: nodes.math_block) -> None:
    """An equation of its own."""
    from docutils.nodes import SkipNode

    self.body.append(f'<div class="math">{latex2mathml.tex2mathml(node.astext(), as_block=True)}</div>')
    raise SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what is above."""
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
    # Napoleon would take "dimension of X: text" in the docstring of a property for a type and a text.
    GoogleDocstring._parse_attribute_docstring = GoogleDocstring._consume_to_end  # type: ignore[method-assign]
    app.connect("source-read", prepare_page)
    app.connect("missing-reference", find_elsewhere)
    app.connect("autodoc-process-docstring", escape_docstring)
    app.connect("autodoc-skip-member", skip_member)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
