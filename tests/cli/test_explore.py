"""``intertwine explore``: the command around the server, which has tests of its own."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from contextlib import closing

import pytest
from typer.testing import CliRunner

from intertwine.cli import program
from intertwine.report import Explorer

runner = CliRunner()


@pytest.fixture
def opened(monkeypatch):
    """Ctrl-C at once, and a browser that only remembers what it was told to open."""
    seen: list[str] = []

    def stop(self, poll_interval=0.5):
        raise KeyboardInterrupt

    monkeypatch.setattr(Explorer, "serve_forever", stop)
    monkeypatch.setattr(webbrowser, "open", seen.append)
    monkeypatch.setenv("DISPLAY", ":0")
    return seen


def test_it_opens_a_browser_and_ends_well(opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = runner.invoke(program(), ["explore"])
    assert done.exit_code == 0, done.output
    address = re.match(r"Open (http://127\.0\.0\.1:\d+/) ", done.stdout)
    assert address
    assert opened == [address[1]]
    assert done.stdout.endswith("stopped\n")


@pytest.mark.parametrize("how", ["--no-browser", "no screen"])
def test_no_browser_where_none_is_wanted_or_can_be_seen(opened, tmp_path, monkeypatch, how):
    monkeypatch.chdir(tmp_path)
    if how == "no screen":
        monkeypatch.setattr("sys.platform", "linux")
        monkeypatch.delenv("DISPLAY")
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert runner.invoke(program(), ["explore", *([how] if how.startswith("--") else [])]).exit_code == 0
    assert opened == []


def test_a_port_that_is_taken_is_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = runner.invoke(program(), ["explore", "--no-browser", "--port", str(taken.getsockname()[1])])
    assert (done.exit_code, done.stdout) == (2, "")
    assert re.fullmatch(r"error: intertwine explore: expected a free port; got .*\n", done.stderr)


def test_a_folder_named_demo_is_found_by_itself(opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "capsules.json").write_text("{}")
    done = runner.invoke(program(), ["explore", "--no-browser"])
    assert done.exit_code == 2, "it looked there, and says what is wrong with it"
    assert "Run 'intertwine demo' again." in done.stderr


@pytest.fixture
def running(tmp_path, forked_children):
    """``intertwine explore`` in a process of its own, and its port."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "intertwine", "explore", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, int(re.findall(r":(\d+)/", process.stdout.readline())[0])
        finally:
            process.kill()


def interrupt(process):
    """One Ctrl-C ends it, without a trace."""
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert (process.stdout.read(), process.stderr.read()) == ("stopped\n", "")


def test_ctrl_c_at_once(running):
    interrupt(running[0])


@pytest.mark.whole
def test_ctrl_c_during_a_training(running):
    process, port = running
    ask(port, "POST")
    while not (state := ask(port, "GET"))["done"]:
        assert state["state"] == "training", state["note"]
        time.sleep(0.1)
    interrupt(process)


@pytest.mark.whole
def test_ctrl_c_while_kernels_are_computed(running):
    process, port = running
    ask(port, "GET", "/api/representations?group=C4")
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", "/api/kernels?group=D16&in=2*regular&out=2*regular&size=15")
        time.sleep(1)  # it computes for twenty seconds and more
        interrupt(process)


def ask(port: int, method: str, path: str = "/api/capsules") -> dict[str, object]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, path)
        return json.loads(connection.getresponse().read())
