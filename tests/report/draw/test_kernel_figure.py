from __future__ import annotations

import itertools
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.text import Text

from intertwine.errors import InputError, SizeLimitError
from intertwine.groups import (
    SO2,
    Cyclic,
    Dihedral,
    FiniteGroup,
    Octahedral,
    Representation,
    Symmetric,
    direct_product,
    parse_representation,
)
from intertwine.kernels import KernelBasis, LatticeKernelBasis, OrbitKernels, SteerableKernelBasis
from intertwine.report import kernel_figure
from intertwine.report.draw._kernel_figure import MAX_PANELS
from intertwine.report.draw._kernel_sheet import share
from intertwine.report.draw._layout import Group, arrange, wrapped
from intertwine.spaces import Grid2d, Grid3d, HomogeneousSpace


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERTWINE_CACHE", "off")


def cosets(group: FiniteGroup, h1: str, h2: str, rho1: str, rho2: str) -> KernelBasis:
    a, b = group.find_subgroup(h1), group.find_subgroup(h2)
    return KernelBasis(
        HomogeneousSpace(group, a).field(getattr(a, rho1)), HomogeneousSpace(group, b).field(getattr(b, rho2))
    )


def plane(
    group: FiniteGroup, taps: int, rho1: str, rho2: str, *, hexagonal: bool = False, allow_empty: bool = False
) -> LatticeKernelBasis:
    space = Grid2d(group, lattice="hexagonal" if hexagonal else "square")
    return LatticeKernelBasis(
        space.field(named(group, rho1)), space.field(named(group, rho2)), taps, allow_empty=allow_empty
    )


def volume(group: FiniteGroup, taps: int, rho1: str, rho2: str) -> LatticeKernelBasis:
    space = Grid3d(group)
    return LatticeKernelBasis(space.field(named(group, rho1)), space.field(named(group, rho2)), taps)


def named(group: FiniteGroup, name: str) -> Representation:
    return parse_representation(group, name)


D4, C4, S4, O = Dihedral(4), Cyclic(4), Symmetric(4), Octahedral()


def rings() -> SteerableKernelBasis:
    so2 = SO2()
    space = Grid2d(so2)
    return SteerableKernelBasis(space.field(so2.irrep(0) + so2.irrep(1)), space.field(so2.irrep(1)), 5)


BASES = {
    "rings": rings,
    "cosets": lambda: cosets(D4, "C2", "C2", "trivial", "regular"),
    "two subgroups": lambda: cosets(S4, "S3", "D4", "trivial", "regular"),
    "long labels": lambda: cosets(direct_product(Cyclic(3), Symmetric(3)), "C3", "C3", "trivial", "trivial"),
    "many points": lambda: cosets(Symmetric(5), "S3", "C4", "trivial", "trivial"),
    "one point": lambda: cosets(S4, "S4", "S4", "trivial", "trivial"),
    "one short row": lambda: cosets(S4, "C2", "S4", "trivial", "trivial"),
    "plane": lambda: plane(D4, 5, "trivial", "regular"),
    "one channel": lambda: plane(D4, 5, "trivial", "trivial"),
    "many": lambda: plane(C4, 3, "regular", "regular"),
    "signs": lambda: plane(D4, 5, "standard", "standard"),
    "even": lambda: plane(D4, 4, "trivial", "regular"),
    "single": lambda: plane(D4, 3, "irrep(0, -1)", "irrep2"),
    "wide": lambda: plane(D4, 3, "regular", "trivial"),
    "hexagonal": lambda: plane(Cyclic(6), 5, "trivial", "regular", hexagonal=True),
    "volume": lambda: volume(O, 3, "trivial", "trivial"),
    "volume, vectors": lambda: volume(O, 3, "standard", "standard"),
    "volume, regular": lambda: volume(O, 3, "trivial", "regular"),
    "empty": lambda: plane(D4, 3, "irrep(0, -1)", "trivial", allow_empty=True),
}


@pytest.fixture(scope="module", params=BASES)
def drawn(request: pytest.FixtureRequest) -> tuple[OrbitKernels, Figure]:
    return of_basis(request.param)


@cache
def of_basis(name: str) -> tuple[OrbitKernels, Figure]:
    """A basis and its figure, drawn once for the tests that only look at it."""
    basis = BASES[name]()
    return basis, kernel_figure(basis)


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text))


def panels(figure: Figure) -> list[np.ndarray]:
    """The numbers each panel shows, in order; the last axes hold the color scale."""
    return [np.asarray((axes.images or axes.collections)[0].get_array()) for axes in figure.axes[:-1]]


def test_a_panel_for_each_kernel_and_one_scale(drawn: tuple[OrbitKernels, Figure]) -> None:
    basis, figure = drawn
    assert len(figure.axes) == min(basis.dim, MAX_PANELS) + 1
    assert figure.axes[-1].get_ylabel() == "value of the kernel"
    for axes in figure.axes[:-1]:
        shown = (axes.images or axes.collections)[0]
        assert shown.norm.vmin == -shown.norm.vmax
        assert shown.cmap(shown.norm(0.0))[:3] == pytest.approx((1, 1, 1), abs=0.01)
    assert len({(axes.images or axes.collections)[0].norm.vmax for axes in figure.axes[:-1]}) <= 1


def test_the_text_states_types_dimension_and_prediction(drawn: tuple[OrbitKernels, Figure]) -> None:
    basis, figure = drawn
    text = " ".join(words(figure).split())
    assert f"dimension {basis.dim} · Mackey's formula predicts {basis.mackey_dim}" in text
    assert f"{basis.in_type.rho.name} → {basis.out_type.rho.name}" in text
    if basis.dim > MAX_PANELS:
        assert f"{MAX_PANELS} of {basis.dim} kernels are drawn; {basis.dim - MAX_PANELS} are left out." in text


def text_faults(figure: Figure) -> list[str]:
    """Texts that are too small, leave the page or meet one another."""
    canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()  # places the texts
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in texts]
    page = figure.bbox
    problems = [f"{text.get_text()!r} is too small" for text in texts if text.get_fontsize() < 7]
    for text, box in zip(texts, boxes, strict=True):
        if not (page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1):
            problems.append(f"{text.get_text()!r} leaves the page")
    for (one, a), (other, b) in itertools.combinations(zip(texts, boxes, strict=True), 2):
        if not (a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1):
            problems.append(f"{one.get_text()!r} meets {other.get_text()!r}")
    return problems


def test_texts_are_legible_on_the_page_and_apart(drawn: tuple[OrbitKernels, Figure]) -> None:
    assert text_faults(drawn[1]) == []


def test_a_fault_in_the_texts_is_seen() -> None:
    figure = kernel_figure(plane(C4, 3, "trivial", "trivial"))
    figure.text(0.05, 0.95, "planted on the title")
    figure.text(0.99, 0.5, "planted on the edge")
    figure.text(0.7, 0.1, "planted and small", fontsize=4)
    faults = "\n".join(text_faults(figure))
    for fault in ("'planted on the title'", "'planted on the edge' leaves", "'planted and small' is too small"):
        assert fault in faults


def test_panels_do_not_overlap_and_the_page_has_a_sensible_size(drawn: tuple[OrbitKernels, Figure]) -> None:
    figure = drawn[1]
    width, height = figure.get_size_inches()
    assert 3 < width < 20
    assert 2 < height < 20
    boxes = [axes.get_position() for axes in figure.axes]
    assert all(0 <= b.x0 < b.x1 <= 1 and 0 <= b.y0 < b.y1 <= 1 for b in boxes)
    for a, b in itertools.combinations(boxes, 2):
        assert a.x1 < b.x0 or b.x1 < a.x0 or a.y1 < b.y0 or b.y1 < a.y0


def test_the_operator_is_what_is_drawn() -> None:
    basis, figure = of_basis("two subgroups")
    assert isinstance(basis, KernelBasis)
    meant = basis.operator()  # (kernels, d2, points2, d1, points1)
    for shown, operator in zip(panels(figure), meant, strict=True):
        assert shown.shape == (3 * 8, 4)
        for x, channel, y in itertools.product(range(3), range(8), range(4)):
            assert shown[x * 8 + channel, y] == operator[channel, x, 0, y]
    first = figure.axes[0]
    assert first.get_ylabel() == "output point of S4/D4"
    assert first.get_xlabel() == "input point of S4/S3"


def test_the_filters_are_what_is_drawn() -> None:
    basis, figure = of_basis("signs")
    assert isinstance(basis, LatticeKernelBasis)
    for shown, kernel in zip(panels(figure), basis.filters(), strict=True):
        for out, into in itertools.product(range(2), range(2)):
            block = shown[out * 5 : out * 5 + 5, into * 5 : into * 5 + 5]
            assert np.array_equal(block, kernel[out, into].numpy())


def test_the_slices_are_what_is_drawn() -> None:
    basis, figure = of_basis("volume, vectors")
    assert isinstance(basis, LatticeKernelBasis)
    for shown, kernel in zip(panels(figure), basis.filters(), strict=True):
        for out, into, z in itertools.product(range(3), range(3), range(3)):
            columns = slice(into * 9 + z * 3, into * 9 + z * 3 + 3)
            assert np.array_equal(shown[out * 3 : out * 3 + 3, columns], kernel[out, into, z].numpy())


def test_hexagons_stand_where_the_taps_are() -> None:
    basis = plane(Cyclic(6), 3, "trivial", "trivial", hexagonal=True)
    figure = kernel_figure(basis)
    (center,) = (axes for axes in figure.axes[:-1] if np.count_nonzero(axes.collections[0].get_array()) == 1)
    cells = [path.vertices[:6].mean(0) for path in center.collections[0].get_paths()]
    values = np.asarray(center.collections[0].get_array())
    middle = cells[int(values.argmax())]
    assert len(cells) == 7
    others = sorted(float(np.linalg.norm(cell - middle)) for cell in cells)
    assert others == pytest.approx([0] + [1] * 6)


def test_separators_stand_between_blocks() -> None:
    first = of_basis("many")[1].axes[0]
    data = [np.asarray(line.get_xdata()) for line in first.lines if line.get_linewidth() > 0.7]
    strong = {ends for x in data for ends in zip(x[::3], x[1::3], strict=True)}  # between two separators is a gap
    assert {(3, 3), (6, 6), (9, 9)} <= strong


def test_groups_carry_the_names_of_their_double_cosets() -> None:
    text = words(of_basis("plane")[1])
    for tap in ("(-2, 2)", "(-1, 2)", "(0, 2)", "(-1, 1)", "(0, 1)", "(0, 0)"):
        assert f"orbit of {tap}" in text
    assert "8 taps, stabilizer order 1" in text
    assert "8 of 8" in text
    assert "double coset of r s" in words(of_basis("cosets")[1])


def test_the_caption_names_double_cosets_without_kernels() -> None:
    text = " ".join(words(of_basis("single")[1]).split())
    assert "There is no kernel on: orbit of (0, 1), orbit of (0, 0)." in text


def test_a_kernel_space_of_zero_is_said_to_be_one() -> None:
    text = words(of_basis("empty")[1])
    assert "Only the zero kernel commutes with the group" in text


def test_too_large_a_panel_is_refused() -> None:
    group = Cyclic(1100)
    space = HomogeneousSpace(group, group.subgroup([10]))
    assert (
        len(kernel_figure(KernelBasis(space.field(space.subgroup.trivial), space.field(space.subgroup.trivial))).axes)
        == 11
    )
    plain = Grid2d(D4).field(130 * D4.regular)
    one = Grid2d(D4).field(D4.trivial)
    with pytest.raises(SizeLimitError, match=r"at most 1000 x 1000 numbers.*got 1 x 1040.*fewer copies"):
        kernel_figure(LatticeKernelBasis(plain, one, 1))


def test_other_kernels_are_refused() -> None:
    class Strange:
        double_cosets = ()

    with pytest.raises(InputError, match="basis to be an OrbitKernels or a SteerableKernelBasis; got a Strange"):
        kernel_figure(Strange())  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_figure_saves(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"kernels.{suffix}"
    kernel_figure(plane(C4, 3, "trivial", "regular")).savefig(file)
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix]
    assert file.read_bytes().startswith(start)


def test_fewer_panels_are_drawn_where_each_is_large() -> None:
    figure = kernel_figure(plane(D4, 5, "regular", "regular"))
    panels_drawn = len(figure.axes) - 1
    assert 6 <= panels_drawn < MAX_PANELS
    assert f"{panels_drawn} of 200 kernels are drawn; {200 - panels_drawn} are left out." in words(figure)
    assert max(figure.get_size_inches()) < 20


def test_kernels_are_taken_in_turn() -> None:
    assert share([4, 16, 16], 25) == [4, 11, 10]
    assert share([1, 0, 2], 25) == [1, 0, 2]
    assert share([1] * 40, 25) == [1] * 25 + [0] * 15
    assert share([], 25) == []


def test_a_layout_places_every_panel_once_and_keeps_small_groups_together() -> None:
    groups = [Group("four", 4), Group("eleven", 11), Group("one", 1), Group("a header wider than its panel", 1)]
    layout = arrange(groups, slot=1.0, row_height=1.5, header_size=8)
    chunks = [chunk for row in layout.rows for chunk in row]
    for number, group in enumerate(groups):
        mine = [chunk for chunk in chunks if chunk.group == number]
        assert [k for c in mine for k in range(c.first, c.first + c.panels)] == list(range(group.panels))
    assert len([chunk for chunk in chunks if chunk.group == 0]) == 1
    assert all(a.left + a.width < b.left for row in layout.rows for a, b in itertools.pairwise(row))
    assert layout.height == 1.5 * len(layout.rows)


def test_text_is_wrapped_to_the_width() -> None:
    assert max(map(len, wrapped("word " * 40, width=3, size=8).splitlines())) <= 50


@pytest.mark.usefixtures("forked_children")
def test_no_window_system_and_no_global_state() -> None:
    code = (
        "import sys, torch\n"
        "from intertwine import groups, kernels, report, spaces\n"
        "assert 'matplotlib' not in sys.modules\n"
        "G = groups.Cyclic(4); plane = spaces.Grid2d(G).field(G.trivial)\n"
        "report.kernel_figure(kernels.solve(plane, plane, kernel_size=3))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "INTERTWINE_CACHE": "off"},
    )
    assert done.returncode == 0, done.stderr


def test_the_scale_is_a_color_bar() -> None:
    figure = kernel_figure(plane(C4, 3, "trivial", "trivial"))
    assert isinstance(figure.axes[-1]._colorbar, Colorbar)  # type: ignore[attr-defined]
    largest = float(torch.stack([kernel.abs().max() for kernel in plane(C4, 3, "trivial", "trivial").filters()]).max())
    assert figure.axes[-1].get_ylim() == pytest.approx((-largest, largest))
