from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import intertwine
from intertwine.errors import StorageError
from intertwine.train import RecordWarning, RunRecord, read_records
from intertwine.train.records import _record as module


def make(value: float = 1.0) -> RunRecord:
    return RunRecord.start({"lr": value}, seed=3).ended("finished", metrics={"accuracy": value}, duration=2.0)


def test_a_record_says_what_ran_where_and_with_what() -> None:
    record = make()
    assert record.code["version"] == intertwine.__version__
    assert {"python", "torch", "platform", "threads"} <= set(record.environment)
    assert record.config_hash == make().config_hash != make(2.0).config_hash
    assert (record.seed, record.status, record.schema_version) == (3, "finished", 1)


def test_it_comes_back_from_its_file(tmp_path: Path) -> None:
    make().write(tmp_path / "a" / "record.json")
    assert RunRecord.read(tmp_path / "a" / "record.json") == make().model_copy(
        update={"started": RunRecord.read(tmp_path / "a" / "record.json").started}
    )
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["record.json"], "no unfinished files"


DAMAGES = {
    "cut off": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "no JSON": lambda text: "\x00" * 10,
    "another type": lambda text: "[1, 2]",
    "a field missing": lambda text: json.dumps({k: v for k, v in json.loads(text).items() if k != "seed"}),
    "a newer schema": lambda text: text.replace('"schema_version": 1', '"schema_version": 2'),
    "an unknown status": lambda text: text.replace('"finished"', '"perhaps"'),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_named_and_the_others_are_kept(tmp_path: Path, damage: str) -> None:
    for number in range(3):
        make(float(number)).write(tmp_path / f"run-{number}" / "record.json")
    path = tmp_path / "run-1" / "record.json"
    path.write_text(DAMAGES[damage](path.read_text()))
    with pytest.warns(RecordWarning, match=r"run-1/record\.json: left out") as caught:
        records = read_records(tmp_path)
    assert len(caught) == 1
    assert [record.config["lr"] for record in records] == [0.0, 2.0]
    with pytest.raises(StorageError, match=r"run-1/record\.json"):
        RunRecord.read(path)


def test_a_record_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        RunRecord.read(tmp_path / "record.json")


def test_the_commit_is_that_of_this_package_or_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module._commit.cache_clear()
    found = module._commit()
    assert found is None or len(found.removesuffix("-dirty")) == 40

    def no_git(*args: object, **options: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", no_git)
    module._commit.cache_clear()
    assert module._commit() is None
    module._commit.cache_clear()
