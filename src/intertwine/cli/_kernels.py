"""``intertwine kernels``: the equivariant kernels between two field types, as tables, JSON and a picture."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import InputError, TypeMismatchError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table
    from torch import Tensor

    from ..groups import CompactLieGroup, FiniteGroup, Group, Subgroup
    from ..kernels import DoubleCoset, OrbitKernels, SteerableKernelBasis
    from ..spaces import FieldType, Grid

_WHO = "intertwine kernels"
_EXAMPLES = """\
\b
Examples:
  intertwine kernels --group D4 --subgroup C2 --in trivial --out regular --png kernels.png
  intertwine kernels --group S4 --subgroup S3 --out-subgroup D4 --in trivial --out regular
  intertwine kernels --group D4 --taps 5 --in trivial --out regular
  intertwine kernels --group O --taps 3 --in trivial --out trivial --json
"""
_PICTURES = (".png", ".svg", ".pdf")
_ROWS_SHOWN = 40
_ELEMENTS_SHOWN = 12
_RANK_LIMIT = 2 * 10**7  # numbers in a realization of the basis up to which its rank is computed


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command(epilog=_EXAMPLES)(kernels)


def kernels(
    group: Annotated[str, typer.Option(help="The group G: D4, S4, O, 'C3 x S3'. With --taps, the point group.")],
    subgroup: Annotated[
        str | None,
        typer.Option(
            help="The stabilizer H1: a type (C2, or C2#2 for the second such class), trivial, whole, "
            "or generators by number (1,4)."
        ),
    ] = None,
    out_subgroup: Annotated[str | None, typer.Option(help="The stabilizer H2 of the output, if it is not H1.")] = None,
    taps: Annotated[
        int | None, typer.Option(help="Instead of --subgroup: the width of a filter on the plane or in space.")
    ] = None,
    lattice: Annotated[
        Literal["square", "hexagonal"] | None, typer.Option(help="With --taps, in the plane.", show_default="square")
    ] = None,
    in_type: Annotated[
        str,
        typer.Option(
            "--in",
            help="Input representation: trivial, regular, irrep1, standard, quotient:C2, '3*trivial + 2*regular'.",
        ),
    ] = "trivial",
    out_type: Annotated[str, typer.Option("--out", help="Output representation, written likewise.")] = "regular",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    png: Annotated[Path | None, typer.Option(help="Draw the basis into this .png, .svg or .pdf file.")] = None,
) -> None:
    """Solve for the equivariant kernels between two field types: on G/H1 and G/H2, or on a lattice with --taps.

    Prints the double cosets with the kernels each carries, the dimension on G, on G/H1 and on the double cosets,
    Mackey's prediction of it, and the largest violation of the constraint.
    """
    _require_one_problem(subgroup, out_subgroup, taps, lattice)
    if png is not None:
        _require_writable(png)

    from .. import groups, report
    from ..kernels import SteerableKernelBasis, solve

    if subgroup is not None:
        found = groups.parse_finite(group)
        h1 = groups.parse_subgroup(found, subgroup)
        h2 = groups.parse_subgroup(found, out_subgroup) if out_subgroup is not None else h1
        notes = [_other_classes(found, text, h) for text, h in ((subgroup, h1), (out_subgroup, h2)) if text]
        basis = solve(*_coset_types(found, h1, h2, in_type, out_type))
        summary = _summary(found, basis, (h1, h2))
    else:
        notes = []
        moving = groups.parse(group)
        basis = solve(*_filter_types(moving, taps or 0, lattice, in_type, out_type), kernel_size=taps)
        summary = (
            _steerable_summary(basis) if isinstance(basis, SteerableKernelBasis) else _summary(basis.group, basis, None)
        )
    summary["notes"] = [note for note in dict.fromkeys(notes) if note]
    if png is not None:
        _save(report.kernel_figure(basis), png)
        summary["picture"] = str(png)

    for note in summary["notes"]:
        typer.echo(f"note: {note}", err=True)
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        _print(summary)


# -- the problem -----------------------------------------------------------------------------------------------


def _require_one_problem(subgroup: str | None, out_subgroup: str | None, taps: int | None, lattice: str | None) -> None:
    if (subgroup is None) == (taps is None):
        raise InputError(
            _WHO,
            expected="either --subgroup, for kernels between spaces G/H, or --taps, for filters on a lattice",
            got="both" if taps is not None else "neither",
            fix="For example --group D4 --subgroup C2, or --group D4 --taps 5.",
        )
    if taps is not None and out_subgroup is not None:
        raise InputError(
            _WHO, expected="--out-subgroup together with --subgroup", got="--taps", fix="A filter stays on its lattice."
        )
    if taps is None and lattice is not None:
        raise InputError(_WHO, expected="--lattice together with --taps", got="--subgroup", fix="Leave out --lattice.")


def _coset_types(
    group: FiniteGroup, h1: Subgroup, h2: Subgroup, in_type: str, out_type: str
) -> tuple[FieldType, FieldType]:
    from ..groups import parse_representation
    from ..spaces import HomogeneousSpace

    source, target = HomogeneousSpace(group, h1), HomogeneousSpace(group, h2)
    return source.field(parse_representation(h1, in_type)), target.field(parse_representation(h2, out_type))


def _filter_types(
    group: Group, taps: int, lattice: Literal["square", "hexagonal"] | None, in_type: str, out_type: str
) -> tuple[FieldType, FieldType]:
    from .._numerics import require_memory
    from ..groups import CompactLieGroup, FiniteGroup, parse_representation

    if not isinstance(group, FiniteGroup | CompactLieGroup):
        raise TypeMismatchError(
            f"{_WHO} --taps",
            expected="a group that fixes a point: C8, D4, O, SO(2), O(3), ...",
            got=group.name,
            fix="The translations of a filter are understood; name the stabilizer of a point.",
        )
    space = _grid(group, lattice)
    order = group.order if isinstance(group, FiniteGroup) else 1
    require_memory(
        taps**space.dimension * order,
        who=_WHO,
        what=f"a filter of {' x '.join([str(taps)] * space.dimension)} taps moved by {order} elements",
        fix="Choose a smaller --taps.",
        itemsize=256,  # the solver looks up every moved tap by its coordinates
    )
    return space.field(parse_representation(group, in_type)), space.field(parse_representation(group, out_type))


def _grid(group: FiniteGroup | CompactLieGroup, lattice: Literal["square", "hexagonal"] | None) -> Grid:
    from ..spaces import Grid2d, Grid3d

    dimension = group.standard.dim if group.standard is not None else 0
    if dimension == 3 and lattice != "hexagonal":
        return Grid3d(group)
    if dimension == 2:
        space = Grid2d(group, lattice=lattice or "square")
        if lattice == "hexagonal" and not space.exact:
            raise TypeMismatchError(
                f"{_WHO} --lattice hexagonal",
                expected="a group that maps the hexagonal lattice to itself: C1, C2, C3, C6, D1, D2, D3, D6",
                got=group.name,
                fix="Leave out --lattice.",
            )
        return space
    raise InputError(
        f"{_WHO} --taps",
        expected="a group that moves the plane (C4, D4, ...)" + (" or space (T, O, Oh)" if lattice is None else ""),
        got=group.name,
        fix="Use --subgroup for a group without motions." if dimension == 0 else "Leave out --lattice.",
    )


def _other_classes(group: FiniteGroup, text: str, subgroup: Subgroup) -> str | None:
    """What else a type of subgroup could have meant: the other classes of the same type."""
    from ..groups import isomorphism

    if not text.strip()[:1].isupper() or "#" in text:
        return None
    alike = [
        c
        for c in group.subgroup_classes()
        if c.representative.order == subgroup.order and c.representative != subgroup
        if isomorphism(c.representative, subgroup) is not None
    ]
    if not alike:
        return None
    others = ", ".join(f"{c.name} = {_elements(c.representative)}" for c in alike)
    return f"{group.name} has several classes of subgroups {text}; taken: {_elements(subgroup)}; the others: {others}"


# -- the answer ------------------------------------------------------------------------------------------------


def _summary(group: FiniteGroup, basis: OrbitKernels, stabilizers: tuple[Subgroup, Subgroup] | None) -> dict[str, Any]:
    """Everything the command says, in the form in which --json prints it."""
    fiber = stabilizers[0] if stabilizers is not None else group
    return {
        "group": group.name,
        "order": group.order,
        "subgroup": _described(stabilizers[0]) if stabilizers is not None else None,
        "out_subgroup": _described(stabilizers[1]) if stabilizers is not None else None,
        **_filter_size(basis),
        "types": {"in": _described_type(basis.in_type), "out": _described_type(basis.out_type)},
        "dimension": basis.dim,
        "mackey": basis.mackey_dim,
        "residual": basis.residual,
        "double_cosets": [_described_coset(group, coset, fiber.order) for coset in basis.double_cosets],
        "realizations": _realizations(basis),
    }


def _steerable_summary(basis: SteerableKernelBasis) -> dict[str, Any]:
    """The same for a group that does not keep the lattice: its double cosets are radii, sampled at rings."""
    return {
        "group": basis.group.name,
        "order": getattr(basis.group, "order", None),
        "subgroup": None,
        "out_subgroup": None,
        "taps": list(basis.kernel_size),
        "lattice": "square" if len(basis.kernel_size) == 2 else "cubic",
        "types": {"in": _described_type(basis.in_type), "out": _described_type(basis.out_type)},
        "dimension": basis.dim,
        "mackey": basis.mackey_dim,
        "residual": basis.residual,
        "double_cosets": [
            {
                "radius": shell.ring.radius,
                "width": shell.ring.sigma,
                "band_limit": shell.ring.band_limit,
                "kernels": shell.dim,
            }
            for shell in basis.double_cosets
        ],
        "realizations": [],
    }


def _described(subgroup: Subgroup) -> dict[str, Any]:
    return {
        "name": subgroup.name,
        "order": subgroup.order,
        "elements": subgroup.embedding.tolist(),
        "text": _elements(subgroup),
    }


def _elements(subgroup: Subgroup) -> str:
    labels = [subgroup.label(h) for h in range(min(subgroup.order, _ELEMENTS_SHOWN))]
    return "{" + ", ".join(labels) + (", ...}" if subgroup.order > _ELEMENTS_SHOWN else "}")


def _described_type(field: FieldType) -> dict[str, Any]:
    return {"space": field.space.name, "representation": field.rho.name, "dim": field.dim}


def _filter_size(basis: OrbitKernels) -> dict[str, Any]:
    from ..kernels import LatticeKernelBasis
    from ..spaces import Grid2d

    if not isinstance(basis, LatticeKernelBasis):
        return {"taps": None, "lattice": None}
    lattice = basis.space.lattice if isinstance(basis.space, Grid2d) else "cubic"
    return {"taps": list(basis.kernel_size), "lattice": lattice}


def _described_coset(group: FiniteGroup, coset: DoubleCoset, fiber: int) -> dict[str, Any]:
    at = coset.representative
    if not isinstance(at, int):
        at = tuple(c + 0.0 for c in at)  # turns -0.0 into 0.0
    return {
        "representative": at if isinstance(at, int) else list(at),
        "label": group.label(at) if isinstance(at, int) else f"({', '.join(f'{c:g}' for c in at)})",
        "points": coset.points,
        "elements": coset.points * fiber,
        "stabilizer_order": coset.stabilizer_order,
        "kernels": coset.dim,
    }


def _realizations(basis: OrbitKernels) -> list[dict[str, Any]]:
    """The same kernels as functions on ever fewer points, with the dimension measured in each place."""
    from ..kernels import KernelBasis, LatticeKernelBasis

    cosets = len(basis.double_cosets)
    if isinstance(basis, KernelBasis):
        on_group, places = basis.on_group, (("G", basis.group.order), ("G/H1", basis.points), ("H2\\G/H1", cosets))
    elif isinstance(basis, LatticeKernelBasis):
        motions = basis.points * basis.group.order
        places = (("motions (tap, r)", motions), ("taps", basis.points), ("orbits of taps", cosets))
        on_group = basis.on_group
    else:
        return []
    fiber = basis.in_type.dim * basis.out_type.dim
    written: tuple[Callable[[], Sequence[Tensor]], ...] = (
        lambda: [on_group()],
        lambda: [basis.on_cosets()],
        basis.on_double_cosets,
    )
    return [
        {
            "on": place,
            "points": points,
            "numbers": points * fiber,
            "dimension": _rank(kernels()) if basis.dim * points * fiber <= _RANK_LIMIT else None,
        }
        for (place, points), kernels in zip(places, written, strict=True)
    ]


def _rank(parts: Sequence[Tensor]) -> int:
    """The rank of kernels (as rows), summed over parts that share no point."""
    import torch

    rows = [part.flatten(1) for part in parts if len(part)]
    return sum(int(torch.linalg.matrix_rank(r @ r.T, hermitian=True)) for r in rows)


# -- printing --------------------------------------------------------------------------------------------------


def _print(summary: dict[str, Any]) -> None:
    # ASCII only: the tables must survive any terminal, pipe and code page.
    from rich.console import Console

    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal:  # a pipe has no width; do not cut what is read by a program or in a file
        console = Console(highlight=False, emoji=False, markup=False, width=200)
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


# -- the picture -----------------------------------------------------------------------------------------------


def _require_writable(file: Path) -> None:
    """Before anything is computed: a name that says the format, in a folder that exists."""
    if file.suffix.lower() not in _PICTURES:
        raise InputError(
            f"{_WHO} --png",
            expected=f"a file that ends in {', '.join(_PICTURES)}",
            got=str(file),
            fix="Add the ending.",
        )
    if not file.parent.is_dir() or file.is_dir():
        raise InputError(
            f"{_WHO} --png",
            expected="a file in a folder that exists",
            got=f"{file}, {'a folder itself' if file.is_dir() else 'whose folder does not'}",
            fix=f"Create the folder: mkdir -p {file.parent}" if not file.is_dir() else "Name a file in it.",
        )


def _save(figure: Figure, file: Path) -> None:
    """Write under a name of its own and rename, so that a kill leaves the old picture or the new one."""
    part = file.with_name(f".{file.stem}.{os.getpid()}{file.suffix}")
    try:
        figure.savefig(part)
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)
