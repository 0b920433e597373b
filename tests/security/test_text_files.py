"""JSON and YAML that are too deep, too long or too large, wherever they are read; and messages that stay short."""

from __future__ import annotations

import pickle

import pytest

from intertwine._untrusted import MAX_YAML_DEPTH, parse_json, parse_yaml, read_bounded, read_json, read_yaml
from intertwine.cli._values import parse_settings
from intertwine.errors import InputError, IntertwineError, StorageError, shortened
from intertwine.experiments import parse_parameter
from intertwine.measure import read_audit
from intertwine.train import CheckpointWarning, RunRecord, TrainConfig, read_metrics, read_records
from intertwine.train.records._checkpoint import CheckpointFolder

DEEP = "[" * 100_000
LONG = "9" * 5000
LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 10))


@pytest.mark.parametrize(
    "text", [DEEP, DEEP + "]" * 100_000, '{"a":' * 100_000, LONG, "{", "", "\x00", b"\xff\xfe\xfa"]
)
def test_json(tmp_path, text):
    with pytest.raises(InputError) as caught:
        parse_json(text, caller="file")
    assert len(str(caught.value)) < 2000
    raw = text if isinstance(text, bytes) else text.encode()
    (tmp_path / "a.json").write_bytes(raw)
    with pytest.raises(InputError):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize(
    "text",
    [
        DEEP, "{" * 100_000, "- " * 100_000, "a: &a [*a]", "a: *b", LAUGHS, "x: " + LONG, "x: " + "1:" * 3000 + "1",
        "x: 2020-99-99", "x: !!python/object/apply:os.system ['true']", "x: !!python/name:os.system", "x: [", "\x00",
        "x: " + "a" * (1 << 20), b"\xff\xfe\xfa", "? " * 1000, "[" * 60 + "]" * 60, "a: &a [1]\nb: {<<: *a}",
    ],
)  # fmt: skip
def test_yaml(tmp_path, text):
    with pytest.raises(InputError) as caught:
        parse_yaml(text, caller="file")
    assert len(str(caught.value)) < 4000
    (tmp_path / "a.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError):
        read_yaml(tmp_path / "a.yaml")


def test_what_people_write_is_read():
    assert parse_yaml("base: &base {lr: 0.1, steps: [1, 2]}\nrun:\n  <<: *base\n  lr: 0.2\n", caller="file") == {
        "base": {"lr": 0.1, "steps": [1, 2]},
        "run": {"lr": 0.2, "steps": [1, 2]},
    }
    assert parse_yaml("[" * (MAX_YAML_DEPTH - 1) + "]" * (MAX_YAML_DEPTH - 1), caller="file")
    assert parse_yaml("text: |\n  " + "1" * 2000, caller="file")["text"] == "1" * 2000
    assert parse_json('{"a": [NaN, 1e400, -0.0]}', caller="file")["a"][1] == float("inf")


def test_no_more_is_read_than_asked_for(tmp_path):
    (tmp_path / "a").write_bytes(bytes(11))
    assert len(read_bounded(tmp_path / "a", max_bytes=11)) == 11
    with pytest.raises(InputError, match="at most 10 bytes"):
        read_bounded(tmp_path / "a", max_bytes=10)
    with pytest.raises(InputError, match="at most 1000 bytes"):  # a file without end
        read_bounded("/dev/zero", max_bytes=1000)


@pytest.mark.parametrize("text", [DEEP, LONG, "{"])
class TestReaders:
    def test_configurations(self, text):
        for read in (TrainConfig.from_json, TrainConfig.from_yaml):
            with pytest.raises(InputError):
                read(text)

    def test_records(self, tmp_path, text):
        (tmp_path / "record.json").write_text(text)
        with pytest.raises(StorageError):
            RunRecord.read(tmp_path / "record.json")
        with pytest.warns(match="left out"):
            assert read_records(tmp_path) == []

    def test_metrics(self, tmp_path, text):
        (tmp_path / "metrics.jsonl").write_text(f'{{"step": 1}}\n{text}\n{{"step": 2}}\n')
        assert read_metrics(tmp_path) == [{"step": 1}, {"step": 2}]

    def test_audits(self, tmp_path, text):
        (tmp_path / "audit.json").write_text(text)
        with pytest.raises(InputError):
            read_audit(tmp_path)

    def test_settings(self, text):
        if text != "{":  # which is a text like any other
            with pytest.raises(InputError):
                parse_settings([f"a={text}"], option="--arg")
        assert parse_parameter(f"a={text},b").choices


def test_checkpoints(tmp_path):
    for step, text in ((1, DEEP), (2, LONG), (3, "[]"), (4, "null")):
        folder = CheckpointFolder(tmp_path, keep=2).path_of(step)
        folder.mkdir(parents=True)
        (folder / "state.json").write_text(text)
    with pytest.warns(CheckpointWarning):
        assert CheckpointFolder(tmp_path, keep=2).latest() is None


def test_settings_of_the_command_line():
    given = ["a=8,8", "b=0.5, 1e-3", "c=8", "d=x,y", "e=[1, 2]", "f=1,x", "g=true,false", "h=", 'i="1,2"', "j=1,"]
    assert parse_settings(given, option="--arg") == {
        "a": [8, 8],
        "b": [0.5, 1e-3],
        "c": 8,
        "d": "x,y",
        "e": [1, 2],
        "f": "1,x",
        "g": "true,false",
        "h": "",
        "i": "1,2",
        "j": "1,",
    }


class TestMessages:
    def test_they_are_short(self):
        error = InputError("w" * 10**6, expected="e" * 10**6, got="g" * 10**6, fix="f" * 10**6)
        assert len(str(error)) < 4 * 1100
        assert "more characters" in error.got
        assert error.got.startswith("g" * 100)
        assert error.got.endswith("g" * 100)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)

    def test_short_ones_are_as_they_were(self):
        error = IntertwineError("solve", expected="a subgroup of D4", got="C3", fix="Try C2.")
        assert str(error) == "solve: expected a subgroup of D4; got C3. Try C2."
        assert shortened("x" * 1000) == "x" * 1000

    def test_they_do_not_command_the_terminal(self):
        assert shortened("a\x1b[2Jb\x07\nc") == "a\\x1b[2Jb\\x07\nc"
