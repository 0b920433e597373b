"""What ``intertwine kernels`` prints: double cosets, realizations and dimensions as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

_ROWS_SHOWN = 40


def print_summary(summary: dict[str, Any]) -> None:
    """Print the tables in ASCII, which survives any terminal, pipe and code page."""
    from .._console import wide_console

    # Wide, because the columns of these tables are cut rather than wrapped.
    console = wide_console(columns=200, highlight=False, emoji=False, markup=False)
    plain = not console.is_terminal
    console.print(_heading(summary), soft_wrap=True)
    console.print()
    steerable = "radius" in summary["double_cosets"][0]
    console.print(_ring_table(summary, plain=plain) if steerable else _coset_table(summary, plain=plain))
    more = len(summary["double_cosets"]) - _ROWS_SHOWN
    if more > 0:
        console.print(f"and {more} more (--json lists all)")
    console.print()
    if not steerable:
        console.print(_realization_table(summary, plain=plain))
        console.print()
    console.print(f"dimension             {summary['dimension']}")
    console.print(f"Mackey's prediction   {summary['mackey']}")
    console.print(f"residual              {summary['residual']:.1e}")
    if "picture" in summary:
        console.print(f"picture               {summary['picture']}", soft_wrap=True)


def _heading(summary: dict[str, Any]) -> str:
    source, target = summary["types"]["in"], summary["types"]["out"]
    arrow = f"{_field(source)} -> {_field(target)}"
    if summary["taps"] is not None:
        size = " x ".join(map(str, summary["taps"]))
        exact = "radius" not in summary["double_cosets"][0]
        verb = "that commute with" if exact else "sampled from kernels that commute with"
        return f"{size} filters on the {summary['lattice']} lattice {verb} {summary['group']}: {arrow}"
    h1, h2 = summary["subgroup"], summary["out_subgroup"]
    lines = [f"kernels {source['space']} -> {target['space']}: {arrow}"]
    if h1 == h2:
        lines.append(f"H1 = H2 = {h1['name']} = {h1['text']}")
    else:
        lines += [f"H1 = {h1['name']} = {h1['text']}", f"H2 = {h2['name']} = {h2['text']}"]
    return "\n".join(lines)


def _field(field: dict[str, Any]) -> str:
    return f"{field['representation']} ({field['dim']} channel{'s' * (field['dim'] != 1)})"


def _coset_table(summary: dict[str, Any], *, plain: bool) -> Table:
    filters = summary["taps"] is not None
    points = "taps" if filters else "points"
    table = _table(
        "orbit of" if filters else "double coset of", points, "elements", "stabilizer order", "kernels", plain=plain
    )
    for coset in summary["double_cosets"][:_ROWS_SHOWN]:
        label, number = coset["label"], coset["representative"]
        name = label if filters or label == str(number) else f"{label}  [{number}]"
        counts = (coset["points"], coset["elements"], coset["stabilizer_order"], coset["kernels"])
        table.add_row(name, *map(str, counts))
    totals = {key: sum(coset[key] for coset in summary["double_cosets"]) for key in ("points", "elements", "kernels")}
    table.add_section()
    table.add_row("together", str(totals["points"]), str(totals["elements"]), "", str(totals["kernels"]))
    return table


def _ring_table(summary: dict[str, Any], *, plain: bool) -> Table:
    table = _table("ring of radius", "width", "degrees up to", "kernels", plain=plain)
    for ring in summary["double_cosets"]:
        table.add_row(f"{ring['radius']:g}", f"{ring['width']:g}", str(ring["band_limit"]), str(ring["kernels"]))
    table.add_section()
    table.add_row("together", "", "", str(summary["dimension"]))
    return table


def _realization_table(summary: dict[str, Any], *, plain: bool) -> Table:
    d1, d2 = summary["types"]["in"]["dim"], summary["types"]["out"]["dim"]
    table = _table("kernels as functions on", "points", f"numbers (points x {d2} x {d1})", "dimension", plain=plain)
    for place in summary["realizations"]:
        measured = "too large to measure" if place["dimension"] is None else str(place["dimension"])
        table.add_row(place["on"], str(place["points"]), str(place["numbers"]), measured)
    return table


def _table(*columns: str, plain: bool) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=None if plain else box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right", no_wrap=True)
    return table
