"""``intertwine list``."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from intertwine import data, experiments, models, nn, relaxed
from intertwine.cli import program
from intertwine.groups import parse

runner = CliRunner()


def rows(kind: str) -> list[dict[str, str]]:
    result = runner.invoke(program(), ["list", kind, "--json"])
    assert result.exit_code == 0
    return json.loads(result.stdout)[kind]


def test_everything_registered_is_listed():
    assert relaxed.RelaxedLayer  # its room registers more layers
    assert {row["name"] for row in rows("layers")} == set(nn.LAYERS)
    assert {row["name"] for row in rows("models")} == set(models.MODELS)
    assert {row["name"] for row in rows("datasets")} == set(data.names())
    assert {row["name"] for row in rows("experiments")} == set(experiments.experiments())
    assert all(row["what"] and ":class:" not in row["what"] for row in rows("layers"))


def test_listing_layers_does_not_import_torch():
    """Torch takes longer to import than the command may take."""
    code = "import sys; from intertwine.cli import main; sys.argv[1:] = ['list', 'layers']\n"
    code += "try: main()\nexcept SystemExit: pass\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
    assert {row["room"] for row in rows("layers")} == {"tw.nn", "tw.relaxed"}


def test_what_the_groups_say_can_be_parsed():
    for row in rows("groups"):
        assert parse(row["parse"].split(",")[0])


@pytest.mark.parametrize("kind", ["layers", "models", "datasets", "experiments", "groups"])
def test_tables(kind):
    result = runner.invoke(program(), ["list", kind])
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].startswith("name")


def test_formulas_keep_their_brackets():
    assert "K^l[a2, a1]" in runner.invoke(program(), ["list", "layers"]).stdout


def test_an_unknown_kind_is_explained():
    result = runner.invoke(program(), ["list", "networks"])
    assert result.exit_code == 2
    assert "expected one of layers, models, datasets, experiments, groups; got 'networks'" in result.stderr
