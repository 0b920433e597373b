from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from intertwine.errors import InputError, StorageError
from intertwine.experiments import Published
from intertwine.report import (
    Column,
    DataTable,
    Facts,
    Note,
    Prose,
    Section,
    TableCell,
    experiment_page,
    inline_svg,
    page,
    write_experiment_page,
    write_page,
)
from intertwine.report._numbers import duration, measured_places, number, percent
from intertwine.report.draw._pieces import needs_logarithm
from intertwine.report.experiment._plot import comparison_figure, learning_curves
from tests.report.sample_experiment import (
    COMPARISON,
    EXPERIMENT,
    HOSTILE,
    RUNS,
    SampleRun,
    compared,
    hostile,
    large,
    with_null,
)

ROOT = Path(__file__).parents[3]


@dataclass
class Table:
    heads: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    keys: list[list[str | None]] = field(default_factory=list)


class Reader(HTMLParser):
    """What a browser would find: tags with attributes, tables as text, scripts, and the text outside of them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, Table] = {}
        self.scripts: list[str] = []
        self.text = ""
        self._table, self._where = Table(), ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self._table = Table()
        elif tag == "caption":
            self._where = "caption"
        elif tag == "tr":
            self._table.rows.append([])
            self._table.keys.append([])
        elif tag in ("th", "td"):
            self._where = "head" if dict(attrs).get("scope") == "col" else "cell"
            if self._where == "head":
                self._table.heads.append("")
            else:
                self._table.rows[-1].append("")
                self._table.keys[-1].append(dict(attrs).get("data-value"))
        elif tag in ("script", "style"):
            self._where = tag
            self.scripts += [""] * (tag == "script")

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._table.rows = [row for row in self._table.rows if row]
            self._table.keys = [keys for keys in self._table.keys if keys]
        if tag in ("th", "td", "caption", "script", "style"):
            self._where = ""

    def handle_data(self, data: str) -> None:
        if self._where == "caption":
            self.tables[data] = self._table
        elif self._where == "head":
            self._table.heads[-1] += data
        elif self._where == "cell":
            self._table.rows[-1][-1] += data
        elif self._where == "script":
            self.scripts[-1] += data
        if self._where not in ("script", "style"):
            self.text += data


def read(*, scale: Any = "small", sample: Any = (EXPERIMENT, COMPARISON, RUNS)) -> Reader:
    return Reader(experiment_page(*sample, scale=scale))


SMALL = experiment_page(EXPERIMENT, COMPARISON, RUNS, scale="small")


# -- what it says ----------------------------------------------------------------------------------------------


def test_published_and_ours_stand_side_by_side() -> None:
    table = Reader(SMALL).tables["Test error: published and ours"]
    assert table.heads == ["row", "published (%)", "ours (%)", "difference (%)"]
    assert table.rows == [
        ["linear classifier", "12", "9.60 ± 0.10 n = 3", "−2.40 better"],
        ["300 hidden units", "4.7 ± 0.2 n = 5", "4.50 ± 0.40 n = 3", "−0.20 better"],
        ["LeNet-5", "0.95 ± 0.08", "1.60 ± 0.10 n = 3", "+0.65 worse"],
        ["boosted LeNet-4", "0.7", "not run", ""],
        ["D4 network", "–", "1.20 n = 1", ""],
    ]
    assert [keys[2] for keys in table.keys] == ["9.6", "4.5", "1.6", "", "1.2"]
    assert [keys[1] for keys in table.keys] == ["12", "4.7", "0.95", "0.7", ""]


def test_a_metric_without_published_numbers_has_ours_alone() -> None:
    table = Reader(SMALL).tables["Likelihood: published and ours"]
    assert table.heads[1] == "published (nats)"
    assert table.rows[0] == ["linear classifier", "–", "−0.960 ± 0.010 n = 3", ""]
    assert "↑ higher is better" in SMALL
    assert "↓ lower is better" in SMALL


def test_a_null_is_a_column_beside_what_it_belongs_to() -> None:
    experiment, comparison, runs = with_null()
    reader = Reader(experiment_page(experiment, comparison, runs, scale="paper"))
    table = reader.tables["Test error: published and ours"]
    assert table.heads[-1].startswith("untrained")
    assert table.rows[0][-1] == "91 ± 1"
    assert "Untrained: null: before training." in reader.text
    assert not any(name.startswith("Test error untrained") for name in reader.tables)


def test_a_metric_that_nobody_has_is_left_out() -> None:
    runs = [replace(run, metrics={"test_error": run.metrics["test_error"]}) for run in RUNS]
    document = read(sample=(EXPERIMENT, compared(EXPERIMENT, runs), runs))
    assert "Likelihood: published and ours" not in document.tables
    assert len([tag for tag, _ in document.tags if tag == "svg"]) == 1 + 2


def test_claims_are_sentences_with_a_verdict_and_its_confidence() -> None:
    table = Reader(SMALL).tables["Orderings that the paper claims"]
    assert table.rows == [
        ["300 hidden units has lower test error than linear classifier", "yes", "✓ holds", ">99.9%"],
        ["LeNet-5 has lower test error than 300 hidden units", "yes", "✓ holds", "99.8%"],
        ["boosted LeNet-4 has lower test error than LeNet-5", "yes", "not run", ""],
        ["D4 network has lower test error than LeNet-5", "not given", "✓ holds", "needs 2 seeds"],
        ["linear classifier has higher likelihood than 300 hidden units", "not given", "✗ does not hold", "<0.1%"],
    ]


def test_a_claim_is_colored_only_where_the_seeds_suffice() -> None:
    tones = [
        attrs.get("class")
        for tag, attrs in Reader(SMALL).tags
        if tag == "td"
        and attrs.get("class") in ("good", "bad", "quiet", None)
        and attrs.get("data-value") in ("1", "2")
    ]
    assert tones == ["good", "good", None, "bad"]


@pytest.mark.parametrize("scale", ["smoke", "small"])
def test_other_scales_are_marked_as_not_the_published_setting(scale: str) -> None:
    document = read(scale=scale)
    assert f"Not the published settings: scale {scale}." in document.text
    assert ("p", {"class": "note warning", "role": "note"}) in document.tags


def test_the_paper_scale_has_no_banner() -> None:
    document = read(scale="paper")
    assert "Not the published settings" not in document.text
    assert "The published settings." in document.text


def test_settings_runs_and_environment_are_there() -> None:
    runs = [replace(RUNS[0], environment={**RUNS[0].environment, "torch": "2.12.0"}), *RUNS[1:]]
    document = read(sample=(EXPERIMENT, COMPARISON, runs))
    assert document.tables["Settings of each row"].rows[-1] == ["D4 network", "d4", "D4"]
    assert document.tables["Every finished run"].heads == ["row", "seed", "test error (%)", "likelihood (nats)", "time"]
    assert document.tables["Every finished run"].rows[0] == ["linear classifier", "0", "9.50", "−0.950", "1 min 5 s"]
    assert len(document.tables["Every finished run"].rows) == len(RUNS)
    for text in ("10000", "mnist", "2.12.0 (1 run), 2.13.0 (9 runs)", "x86_64", "10 min 50 s", "4 of 5"):
        assert text in document.text


def test_without_runs_the_page_says_how_to_start() -> None:
    document = read(sample=(EXPERIMENT, compared(EXPERIMENT, []), []))
    assert "intertwine experiment run sample --scale small" in document.text
    assert [row[2] for row in document.tables["Test error: published and ours"].rows] == ["not run"] * 5
    assert "Every finished run" not in document.tables


def test_a_diverged_seed_is_shown_and_sorts_last() -> None:
    runs = [replace(RUNS[0], metrics={"test_error": math.nan, "likelihood": math.inf}), *RUNS[1:]]
    document = read(sample=(EXPERIMENT, compared(EXPERIMENT, runs), runs))
    table = document.tables["Test error: published and ours"]
    assert table.rows[0] == ["linear classifier", "12", "NaN n = 3", ""]
    assert table.keys[0][2] == ""
    assert document.tables["Every finished run"].keys[0][3] == "Infinity"
    assert json.loads(document.scripts[0])["runs"][0]["metrics"] == {"test_error": None, "likelihood": None}


def test_scripts_find_the_numbers_as_json() -> None:
    data = json.loads(Reader(SMALL).scripts[0])
    assert data["experiment"] == "sample"
    assert data["scale"] == "small"
    result = data["rows"][1]["results"]["test_error"]
    assert result["published"] == {"mean": 4.7, "spread": 0.2, "runs": 5}
    assert result["values"] == [4.9, 4.1, 4.5]
    assert result["std"] == pytest.approx(0.4)
    assert data["claims"][3] == {
        "first": "d4",
        "second": "lenet",
        "metric": "test_error",
        "published": None,
        "holds": True,
        "confidence": None,
    }
    assert data["environments"][data["runs"][-1]["environment"]]["torch"] == "2.13.0"


def test_an_unknown_scale_is_an_error() -> None:
    with pytest.raises(InputError, match="'smoke', 'quick', 'small' or 'paper'; got 'huge'"):
        read(scale="huge")
    with pytest.raises(InputError, match="expected a scale: smoke, small, paper; got 'quick'"):
        read(scale="quick")


def test_the_same_input_gives_the_same_page() -> None:
    assert experiment_page(EXPERIMENT, COMPARISON, RUNS, scale="small") == SMALL


# -- one file that needs nothing -------------------------------------------------------------------------------


def outside(text: str) -> list[str]:
    """Everything in a page that a browser would fetch."""
    addresses = []
    for tag, attrs in Reader(text).tags:
        for name, value in attrs.items():
            if name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster") and value is not None:
                addresses += [f"{tag} {name}={value}"] if not value.startswith("#") and value != "data:," else []
    addresses += re.findall(r"@import[^;]*|url\((?!#)[^)]*\)", text)
    return addresses


@pytest.mark.parametrize("sample", [(EXPERIMENT, COMPARISON, RUNS), hostile()], ids=["plain", "hostile"])
def test_a_page_refers_to_nothing_outside(sample: Any) -> None:
    text = experiment_page(*sample, scale="small")
    assert outside(text) == []
    assert "://" not in text


@pytest.mark.parametrize(
    "planted",
    ['<img src="x.png">', '<a href="page.html">', "<style>@import 'x';</style>", "<b style='background:url(x)'>"],
)
def test_the_search_for_references_finds_planted_ones(planted: str) -> None:
    assert len(outside(SMALL.replace("</main>", planted + "</main>"))) == 1


def test_the_policy_allows_this_script_only_and_no_loading() -> None:
    document = Reader(SMALL)
    policy = next(
        attrs["content"] for tag, attrs in document.tags if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    digest = base64.b64encode(hashlib.sha256(document.scripts[1].encode()).digest()).decode()
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert f"script-src 'sha256-{digest}';" in policy


def test_markup_in_names_stays_text() -> None:
    text = experiment_page(*hostile(), scale="small")
    document = Reader(text)
    assert [tag for tag, _ in document.tags].count("script") == 2
    assert not any(name.startswith("on") for _, attrs in document.tags for name in attrs)
    assert "<!--" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    shown = HOSTILE.replace("\x00", "\ufffd")
    assert document.tables["Test error: published and ours"].rows[0][0] == f"linear classifier {shown}"
    assert json.loads(document.scripts[0])["rows"][0]["title"] == f"linear classifier {HOSTILE}"
    assert [tag for tag, _ in document.tags if tag == "svg"] == [tag for tag, _ in Reader(SMALL).tags if tag == "svg"]


def test_a_page_is_light() -> None:
    assert len(SMALL.encode()) < 100_000
    assert len(experiment_page(*large(), scale="paper").encode()) < 300_000


# -- pictures --------------------------------------------------------------------------------------------------


def pictures(text: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)]


def words(svg: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in svg.iter("text")]


def test_there_is_a_plot_for_each_metric_and_each_logged_quantity() -> None:
    labels = [svg.get("aria-label") for svg in pictures(SMALL)]
    assert labels == [
        "Test error (%) of each row, published and ours",
        "Likelihood (nats) of each row, published and ours",
        "training loss during training",
        "test error (%) during training",
    ]


def test_plots_have_labels_with_units_and_every_row() -> None:
    first, second, loss, error = map(words, pictures(SMALL))
    assert "test error (%), ↓ lower is better, log scale" in first
    assert "likelihood (nats), ↑ higher is better" in second
    assert {"linear classifier", "300 hidden units", "LeNet-5", "boosted LeNet-4 — not run", "D4 network"} <= set(first)
    assert {"training step", "training loss, log scale", "LeNet-5 (n = 3)", "D4 network (n = 1)"} <= set(loss)
    assert {"training step", "test error (%), log scale"} <= set(error)
    assert not any("boosted" in word for word in loss)


def test_ids_are_different_on_the_whole_page_and_every_reference_resolves() -> None:
    ids = Counter(attrs["id"] for _, attrs in Reader(SMALL).tags if "id" in attrs)
    assert max(ids.values()) == 1
    wanted = set(re.findall(r'(?:href="|url\()#([^")]+)', SMALL))
    assert len(wanted) > 20
    assert wanted - set(ids) == set()


def test_every_seed_is_a_dot_at_its_value_and_published_has_another_shape() -> None:
    figure = comparison_figure(EXPERIMENT, COMPARISON, EXPERIMENT.metrics[0])
    lines = figure.axes[0].get_lines()
    dots = [[float(x) for x in line.get_xdata()] for line in lines if line.get_marker() == "."]  # type: ignore[union-attr]
    assert dots == [[9.5, 9.7, 9.6], [4.9, 4.1, 4.5], [1.5, 1.7, 1.6], [], [1.2]]
    means = {
        shape: [float(line.get_xdata()[0]) for line in lines if line.get_marker() == shape]  # type: ignore[index]
        for shape in "oD"
    }
    assert means["D"] == [12.0, 4.7, 0.95, 0.7]
    assert means["o"] == pytest.approx([9.6, 4.5, 1.6, 1.2])
    low, high = figure.axes[0].get_xlim()
    assert low < 0.7
    assert high > 12.0


def test_a_logarithmic_axis_is_used_where_it_is_needed_and_possible() -> None:
    assert needs_logarithm([0.7, 12.0])
    assert not needs_logarithm([80.0, 99.0])
    assert not needs_logarithm([-1.0, 100.0])
    assert not needs_logarithm([math.nan])


def test_colors_come_from_the_page() -> None:
    svg = re.search(r"<svg.*?</svg>", SMALL, flags=re.DOTALL)
    assert svg is not None
    assert {"currentColor", "var(--series-1)", "var(--series-2)"} <= set(
        re.findall(r"(?:fill|stroke):([^;\"]+)", svg[0])
    )
    assert re.findall(r"#[0-9a-f]{6}\b", svg[0]) == []


def test_curves_are_means_with_the_range_of_seeds() -> None:
    logs = [
        [{"step": 1, "train_loss": 1.0}, {"step": 2, "train_loss": v}, {"step": 3, "other": 0.0}] for v in (2.0, 4.0)
    ]
    runs = [SampleRun("mlp", seed, {}, log) for seed, log in enumerate(logs)]
    (curve,) = learning_curves(EXPERIMENT, runs, "train_loss", max_points=10)
    assert (curve.row, curve.seeds, list(curve.steps)) == ("mlp", 2, [1, 2])
    assert (list(curve.mean), list(curve.low), list(curve.high)) == ([1, 3], [1, 2], [1, 4])


def test_long_logs_are_averaged_over_stretches() -> None:
    log = [{"step": step, "train_loss": float(step)} for step in range(1, 1001)]
    (curve,) = learning_curves(EXPERIMENT, [SampleRun("mlp", 0, {}, log)], "train_loss", max_points=10)
    assert list(curve.steps) == pytest.approx([50 + 100 * k for k in range(10)])
    assert list(curve.mean) == pytest.approx([50.5 + 100 * k for k in range(10)])


def test_logged_values_that_are_no_numbers_are_left_out() -> None:
    log: Any = [
        {"step": 1, "train_loss": 1.0},
        {"step": 2, "train_loss": math.nan},
        {"step": 3, "train_loss": None},
        {"step": 4, "train_loss": 2.0},
    ]
    (curve,) = learning_curves(EXPERIMENT, [SampleRun("mlp", 0, {}, log)], "train_loss", max_points=10)
    assert list(curve.steps) == [1, 4]


def test_the_log_of_the_training_loop_is_understood() -> None:
    log: Any = [
        {"step": step, "epoch": 0, "split": split, "lr": 0.1, "seconds": 1.0, **values}
        for step in (1, 2, 3)
        for split, values in (("train", {"loss": 2.0}), ("val", {"val_loss": 2.5, "val_top5_error": 0.5}))
    ]
    runs = [replace(run, history=log) for run in RUNS]
    drawings = pictures(experiment_page(EXPERIMENT, COMPARISON, runs, scale="small"))[2:]
    labels = [str(svg.get("aria-label")).removesuffix(" during training") for svg in drawings]
    assert labels == ["training loss", "validation loss", "validation top5 error"]


def test_many_curves_are_spread_over_pictures_with_equal_axes() -> None:
    drawings = pictures(experiment_page(*large(), scale="paper"))
    loss = [svg for svg in drawings if (svg.get("aria-label") or "").startswith("training loss")]
    assert [str(svg.get("aria-label")).partition(", ")[2] for svg in loss] == [
        "rows 1 to 5 of 16",
        "rows 6 to 10 of 16",
        "rows 11 to 16 of 16",
    ]
    ticks = [[word for word in words(svg) if re.fullmatch(r"[\d.,]+", word)] for svg in loss]
    assert ticks[0] == ticks[1] == ticks[2]


def test_without_matplotlib_the_page_has_tables_and_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = experiment_page(EXPERIMENT, COMPARISON, RUNS, scale="small")
    document = Reader(text)
    assert "pip install 'intertwine[plot]'" in document.text
    assert "<svg" not in text
    assert "Learning curves" not in text
    assert len(document.tables) == len(Reader(SMALL).tables)


def test_letters_that_the_plotting_font_lacks_are_the_browsers_business() -> None:
    rows = (replace(EXPERIMENT.rows[0], title="線形 🙂"), *EXPERIMENT.rows[1:])
    experiment = replace(EXPERIMENT, rows=rows)
    text = experiment_page(experiment, COMPARISON, RUNS, scale="small")  # a warning would be an error here
    assert "線形 🙂" in words(pictures(text)[0])


def test_any_figure_becomes_markup_for_a_page() -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2, 2))
    axes = figure.add_subplot()
    axes.imshow([[0, 1], [1, 0]])
    axes.bar([0], [1], hatch="/", color="#123456")
    svg = ElementTree.fromstring(inline_svg(figure, name="any", title="a < b"))
    assert svg.get("aria-label") == "a < b"
    assert [str(image.get("href"))[:14] for image in svg.iter("image")] == ["data:image/png"]
    text = ElementTree.tostring(svg, encoding="unicode")
    assert "#123456" in text
    wanted = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    assert wanted == {element.get("id") for element in svg.iter() if element.get("id")}
    assert all(name.startswith("any-") for name in wanted)


# -- the shell -------------------------------------------------------------------------------------------------


def test_a_page_is_made_of_sections_and_blocks() -> None:
    blocks = [
        Prose("a <i> paragraph"),
        Facts([("version", "1 & 2")]),
        Note("read this", heading="Careful:", warning=True),
        DataTable("Speeds", [Column("layer"), Column("speed", "ms", "right")], [[TableCell("a"), TableCell("1")]]),
    ]
    document = Reader(page("Title", [Section("First", blocks), Section("Second", [Prose("x")], folded=True)]))
    assert document.tables["Speeds"].heads == ["layer", "speed (ms)"]
    assert "a <i> paragraph" in document.text
    assert "1 & 2" in document.text
    assert [tag for tag, _ in document.tags].count("details") == 1
    assert not any(tag == "nav" for tag, _ in document.tags)
    assert len(document.scripts) == 1


def test_a_table_with_a_missing_cell_is_an_error() -> None:
    with pytest.raises(InputError, match="2 cells per row, one per column; got 1"):
        DataTable("t", [Column("a"), Column("b")], [[TableCell("x")]])


def test_a_page_is_written_whole_and_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "page.html"
    assert write_experiment_page(path, EXPERIMENT, COMPARISON, RUNS, scale="small") == path
    assert path.read_text(encoding="utf-8") == SMALL
    write_page(path, "other")
    assert path.read_text(encoding="utf-8") == "other"
    assert os.listdir(path.parent) == ["page.html"]


def test_a_failed_write_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StorageError, match="No space left on device"):
        write_page(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"file/page\.html"):
        write_page(tmp_path / "file" / "page.html", "text")


# -- numbers ---------------------------------------------------------------------------------------------------


def test_numbers_are_written_for_people() -> None:
    assert number(0.0, 2, signed=True) == "0.00"
    assert number(-0.001, 2) == "0.00"
    assert number(0.25, 1, signed=True) == "+0.2"
    assert number(math.nan, 2) == "NaN"
    assert number(-math.inf, 2) == "−∞"
    assert number(1.5e12, 0) == "1.5e+12"
    assert percent(0.9990) == "99.9%"
    assert duration(59.99) == "1 min"
    assert duration(3599.6) == "1 h"
    assert duration(math.nan) == "–"


@pytest.mark.parametrize(
    ("values", "spreads", "published", "places"),
    [
        ([9.6, 4.5], [0.1, 0.4], 2, 2),  # two digits of the spread
        ([9.6, 4.5], [0.001], 2, 3),  # one more than published at most
        ([9.6, 4.5], [30.0], 1, 1),  # never fewer
        ([0.12345], [], None, 4),  # four digits without a spread
        ([61706.0], [0.0], None, 0),  # counts stay counts
        ([math.nan], [], None, 0),
    ],
)
def test_decimals_follow_the_spread_and_the_paper(
    values: list[float], spreads: list[float], published: int | None, places: int
) -> None:
    assert measured_places(values, spreads, published) == places


def test_published_numbers_keep_their_digits() -> None:
    rows = tuple(
        replace(row, published={"test_error": given})
        for row, given in zip(
            EXPERIMENT.rows,
            (Published(61706.0), Published(1 / 3), Published(0.5, 0.25), Published(99.123), Published(1e-5)),
            strict=True,
        )
    )
    experiment = replace(EXPERIMENT, rows=rows)
    table = read(sample=(experiment, compared(experiment, RUNS), RUNS)).tables["Test error: published and ours"]
    assert [row[1] for row in table.rows] == ["61,706", "0.333333", "0.50 ± 0.25", "99.123", "0.00001"]
