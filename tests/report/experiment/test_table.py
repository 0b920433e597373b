from __future__ import annotations

import io
import re
from dataclasses import replace
from statistics import fmean

import pytest
from rich.console import Console

from intertwine.errors import InputError
from intertwine.experiments import experiment_named, kept_runs
from intertwine.report import comparison_table, experiment_page, with_plots, with_tables
from tests.report.sample_experiment import COMPARISON, EXPERIMENT, HOSTILE, RUNS, compared, hostile, with_null


def printed(width: int, *, experiment=EXPERIMENT, comparison=COMPARISON, terminal: bool = False) -> str:  # type: ignore[no-untyped-def]
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, color_system="truecolor" if terminal else None)
    console.print(comparison_table(experiment, comparison))
    return file.getvalue()


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_published_and_ours_and_the_claims_are_printed() -> None:
    shown = lines(printed(100))
    assert "test error (%), ↓ lower is better" in shown
    assert "row published n ours n difference" in shown
    assert "linear classifier 12 9.60 ± 0.10 3 −2.40 better" in shown
    assert "300 hidden units 4.7 ± 0.2 5 4.50 ± 0.40 3 −0.20 better" in shown
    assert "boosted LeNet-4 0.7 not run" in shown
    assert "D4 network – 1.20 1" in shown
    assert "likelihood (nats), ↑ higher is better" in shown
    assert "claim published here confidence" in shown
    assert "LeNet-5 has lower test error than 300 hidden units yes holds 99.8%" in shown
    assert "boosted LeNet-4 has lower test error than LeNet-5 yes not run" in shown
    assert "D4 network has lower test error than LeNet-5 not given holds needs 2 seeds" in shown


def test_a_null_is_printed_beside_what_it_belongs_to() -> None:
    experiment, comparison, _ = with_null()
    shown = lines(printed(120, experiment=experiment, comparison=comparison))
    assert "row published n ours n difference untrained" in shown
    assert "linear classifier 12 9.60 ± 0.10 3 −2.40 better 91 ± 1" in shown
    assert not any(line.startswith("test error untrained") for line in shown), "and has no table of its own"


def test_a_row_that_ran_and_does_not_have_the_metric_was_not_left_out() -> None:
    runs = [run if run.row != "mlp" else replace(run, metrics={"test_error": 4.5}) for run in RUNS]
    shown = lines(printed(100, comparison=compared(EXPERIMENT, runs)))
    assert "300 hidden units – –" in shown
    assert "boosted LeNet-4 – not run" in shown


def test_degenerate_runs_are_counted_and_named() -> None:
    text = "Left out as degenerate: 1 run of linear classifier."
    assert text not in lines(printed(100))
    strict = replace(EXPERIMENT, counts=lambda metrics: metrics["test_error"] < 9.65)
    comparison = compared(strict, RUNS)
    shown = lines(printed(100, experiment=strict, comparison=comparison))
    assert "linear classifier 12 9.55 ± 0.07 2 −2.45 better" in shown
    assert text in shown
    assert text in experiment_page(strict, comparison, RUNS, scale="smoke")


@pytest.mark.parametrize("width", [80, 100, 200])
def test_nothing_is_cut_and_no_line_is_too_long(width: int) -> None:
    text = printed(width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for word in ("classifier", "−2.40", "better", "difference", ">99.9%", "confidence", "likelihood"):
        assert word in text


def test_numbers_stay_in_one_piece_in_a_narrow_terminal() -> None:
    text = printed(60)
    for piece in ("9.60 ± 0.10", "4.7 ± 0.2", "−0.20 better", "1.20"):
        assert piece in text


def test_a_pipe_gets_no_color_and_a_terminal_does() -> None:
    assert "\x1b[" not in printed(80)
    assert "\x1b[" in printed(80, terminal=True)


def test_names_in_brackets_are_names() -> None:
    experiment, comparison, _ = hostile()
    text = printed(300, experiment=experiment, comparison=comparison)
    assert "[red]" in text
    assert HOSTILE.partition(" \x00")[0] in text


def test_without_runs_every_row_says_so() -> None:
    shown = lines(printed(80, comparison=compared(EXPERIMENT, [])))
    assert "linear classifier 12 not run" in shown
    assert not any("likelihood (nats)" in line for line in shown)


def cells(block: str) -> list[list[str]]:
    """The table that a page gets for this block."""
    page = with_tables(f"<!-- {block} -->\n<!-- end -->")
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line[0] == "|"]


def test_a_summary_counts_the_claims_of_both_scales():
    header, _, low_rank, theirs, total = cells("summary: lrlc lrlc-mnist")
    assert header[2:7] == ["claims", "seen", "not seen", "can't tell", "not run"]
    verdicts = [row[3] for row in cells("claims: lrlc")[2:]]
    counts = [len(verdicts), *(verdicts.count(verdict) for verdict in header[3:7])]
    assert low_rank[0] == "`lrlc`"
    assert low_rank[2:7] == [str(count) if count else "" for count in counts]
    for column in range(2, 7):
        assert int(total[column] or 0) == int(low_rank[column] or 0) + int(theirs[column] or 0)


def test_a_claim_has_the_numbers_of_the_larger_scale_that_decides_it():
    small, quick = (cells(f"claims: lrlc {scale}")[2:] for scale in ("small", "quick"))
    rows = cells("claims: lrlc")[2:]
    assert {row[5] for row in rows} == {"small", "quick"}
    for row, large, little in zip(rows, small, quick, strict=True):
        decided = large[3] in ("seen", "not seen") or little[3] not in ("seen", "not seen")
        assert row == (large if decided else little)
    assert cells("claims: nbody") == cells("claims: nbody small"), "an experiment without scale quick"


def test_claims_leave_out_published_numbers_on_another_scale():
    """The equivariance error is a sum over frames and capsules, of which scale quick has fewer."""
    errors = [row for row in cells("claims: tvae-mnist quick") if "equivariance error" in row[0]]
    assert errors
    assert {row[1] for row in errors} == {"–"}
    same = [row for row in cells("claims: tvae-mnist small") if "equivariance error" in row[0]]
    assert "574" in same[0][1]


def test_a_table_of_several_metrics_has_what_each_table_has():
    """A page may ask for several metrics side by side; a metric that was not published has no such column."""
    both = cells("results: relu-symmetry small accuracy gcnn_barrier_unmatched")
    accuracy = cells("results: relu-symmetry small accuracy")
    assert both[0] == ["network", "accuracy", "published", "GCNN barrier unmatched", "seeds"]
    assert [row[:3] for row in both[2:]] == [[row[0], row[2], row[1]] for row in accuracy[2:]]
    runs = [run for run in kept_runs(experiment_named("relu-symmetry"), "small") if run.row == "cnn"]
    mean = fmean(run.metrics["gcnn_barrier_unmatched"] for run in runs)
    assert float(both[2][3].split(" ± ")[0]) == pytest.approx(mean, abs=1e-3)
    assert both[2][-1] == str(len(runs))


def titles(svg: str) -> set[str]:
    """The texts of a picture."""
    return set(re.findall(r"<text[^>]*>([^<]+)</text>", svg))


def test_plots_of_a_page_show_the_rows_that_were_run():
    """Adjacent lines make one block; rows after the metric choose among those that were run."""
    plots = "<!-- plot: relu-symmetry small accuracy cnn gcnn -->\n<!-- curves: lrlc small val_accuracy -->"
    page = with_plots(f"before\n\n{plots}\n\nafter\n")
    assert page.startswith("before\n\n```{raw} html\n")
    assert page.endswith("</div>\n```\n\nafter\n")
    assert page.count('<div class="plots">') == 1
    plot, curves = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    experiment = experiment_named("relu-symmetry")
    shown = titles(plot) & {row.title for row in experiment.rows}
    assert shown == {experiment.row(name).title for name in ("cnn", "gcnn")}
    runs = kept_runs(experiment_named("lrlc"), "small")
    for row in experiment_named("lrlc").rows:
        count = sum(run.row == row.name for run in runs)
        assert (f"{row.title} (n = {count})" in titles(curves)) == (count > 0)
    assert "(relu-symmetry, scale small)." in page


def test_plots_of_rows_that_were_not_run():
    assert with_plots("<!-- plot: lrlc small test_accuracy coord -->\n") == "*No results yet.*\n"


@pytest.mark.parametrize(
    "words", ["plot: lrlc small test_acuracy", "plot: lrlc tiny test_accuracy", "plot: lrcl small x"]
)
def test_a_plot_with_a_wrong_name_is_refused(words):
    with pytest.raises(InputError, match="expected"):
        with_plots(f"<!-- {words} -->\n")
