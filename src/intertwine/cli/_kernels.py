"""``intertwine kernels``: the equivariant kernels between two field types, as tables, JSON and a picture."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..errors import InputError, TypeMismatchError
from ._kernel_summary import elements_of, steerable_summary, summary_of
from ._kernel_tables import print_summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..groups import CompactLieGroup, FiniteGroup, Group, Subgroup
    from ..spaces import FieldType, Grid

_CALLER = "intertwine kernels"
_EXAMPLES = """\
\b
Examples:
  intertwine kernels --group D4 --subgroup C2 --in trivial --out regular --png kernels.png
  intertwine kernels --group S4 --subgroup S3 --out-subgroup D4 --in trivial --out regular
  intertwine kernels --group D4 --taps 5 --in trivial --out regular
  intertwine kernels --group O --taps 3 --in trivial --out trivial --json
"""
_PICTURES = (".png", ".svg", ".pdf")


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
    out_subgroup: Annotated[str | None, typer.Option(help="The stabilizer H2 of the output; default: H1.")] = None,
    taps: Annotated[
        int | None, typer.Option(help="Instead of --subgroup: the width of a filter in the plane or in space.")
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
    out_type: Annotated[str, typer.Option("--out", help="Output representation, in the same notation.")] = "regular",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    png: Annotated[Path | None, typer.Option(help="Draw the basis into this .png, .svg or .pdf file.")] = None,
) -> None:
    """Solve for the equivariant kernels between two field types: on G/H1 and G/H2, or on a lattice with --taps.

    Prints the double cosets with the number of kernels on each, the dimension on G, on G/H1 and on the double cosets,
    Mackey's prediction, and the largest violation of the constraint.
    """
    _require_one_problem(subgroup, out_subgroup, taps, lattice)
    if png is not None:
        _require_writable(png)

    from .. import groups, report
    from ..kernels import OrbitKernels, SteerableKernelBasis, solve

    if subgroup is not None:
        finite = groups.parse_finite(group)
        h1 = groups.parse_subgroup(finite, subgroup)
        h2 = groups.parse_subgroup(finite, out_subgroup) if out_subgroup is not None else h1
        notes = [_other_classes(finite, text, h) for text, h in ((subgroup, h1), (out_subgroup, h2)) if text]
        on_cosets = solve(*_coset_types(finite, h1, h2, in_type, out_type))
        basis: OrbitKernels | SteerableKernelBasis = on_cosets
        summary = summary_of(finite, on_cosets, (h1, h2))
    else:
        notes = []
        moving = groups.parse(group)
        basis = solve(*_filter_types(moving, taps or 0, lattice, in_type, out_type), kernel_size=taps or 0)
        summary = (
            steerable_summary(basis)
            if isinstance(basis, SteerableKernelBasis)
            else summary_of(basis.group, basis, None)
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
        print_summary(summary)


def _require_one_problem(subgroup: str | None, out_subgroup: str | None, taps: int | None, lattice: str | None) -> None:
    if (subgroup is None) == (taps is None):
        raise InputError(
            _CALLER,
            expected="either --subgroup, for kernels between spaces G/H, or --taps, for filters on a lattice",
            got="both" if taps is not None else "neither",
            fix="For example --group D4 --subgroup C2, or --group D4 --taps 5.",
        )
    if taps is not None and out_subgroup is not None:
        raise InputError(
            _CALLER, expected="--out-subgroup together with --subgroup", got="--taps", fix="Leave out --out-subgroup."
        )
    if taps is None and lattice is not None:
        raise InputError(
            _CALLER, expected="--lattice together with --taps", got="--subgroup", fix="Leave out --lattice."
        )


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
            f"{_CALLER} --taps",
            expected="a group that fixes a point: C8, D4, O, SO(2), O(3), ...",
            got=group.name,
            fix="Filters include translations; name the stabilizer of a point.",
        )
    space = _grid(group, lattice)
    order = group.order if isinstance(group, FiniteGroup) else 1
    require_memory(
        taps**space.dimension * order,
        caller=_CALLER,
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
                f"{_CALLER} --lattice hexagonal",
                expected="a group that maps the hexagonal lattice to itself: C1, C2, C3, C6, D1, D2, D3, D6",
                got=group.name,
                fix="Leave out --lattice.",
            )
        return space
    raise InputError(
        f"{_CALLER} --taps",
        expected="a group that moves the plane (C4, D4, ...)" + (" or space (T, O, Oh)" if lattice is None else ""),
        got=group.name,
        fix="Use --subgroup for a group without motions." if dimension == 0 else "Leave out --lattice.",
    )


def _other_classes(group: FiniteGroup, text: str, subgroup: Subgroup) -> str | None:
    """A note about the other classes of subgroups that the same type could mean."""
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
    others = ", ".join(f"{c.name} = {elements_of(c.representative)}" for c in alike)
    return f"{group.name} has several classes of subgroups {text}; chosen: {elements_of(subgroup)}; others: {others}"


def _require_writable(file: Path) -> None:
    """Check, before computing anything, that the name has a known ending and the folder exists."""
    if file.suffix.lower() not in _PICTURES:
        raise InputError(
            f"{_CALLER} --png",
            expected=f"a file that ends in {', '.join(_PICTURES)}",
            got=str(file),
        )
    if not file.parent.is_dir() or file.is_dir():
        raise InputError(
            f"{_CALLER} --png",
            expected="a file in a folder that exists",
            got=f"{file}, {'a folder itself' if file.is_dir() else 'whose folder does not'}",
            fix=f"Create the folder: mkdir -p {file.parent}" if not file.is_dir() else "Name a file in it.",
        )


def _save(figure: Figure, file: Path) -> None:
    """Write with a temporary name, then rename: a killed process leaves the old picture or the new one."""
    part = file.with_name(f".{file.stem}.{os.getpid()}{file.suffix}")
    try:
        figure.savefig(part)
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)
