"""Downloads, from a server on this machine: whole files arrive, anything else leaves nothing behind."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from intertwine.data import load
from intertwine.data._download import Resource, fetch
from intertwine.data.named import _cifar10, _mnist
from intertwine.errors import InputError
from tests.data.files import write_mnist


class Server(ThreadingHTTPServer):
    """Serves ``files`` at their names; ``cut/``, ``long/`` and ``flip/`` before a name do harm to them."""

    daemon_threads = True

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path[1:])
        harm, _, name = self.path[1:].rpartition("/")
        content = self.server.files.get(name)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        if harm != "long":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if harm == "cut":
            content = content[: len(content) // 2]
        elif harm == "flip":
            content = bytes([content[0] ^ 1]) + content[1:]
        elif harm == "long":
            content += b"x" * 1000
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with Server() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def resource(server: Server, *harms: str, name: str = "a.bin", content: bytes = b"0123456789" * 50_000) -> Resource:
    server.files[name] = content
    urls = tuple(server.url + harm + name for harm in harms)
    return Resource(name, len(content), hashlib.sha256(content).hexdigest(), urls)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def test_a_whole_file_arrives(server: Server, tmp_path: Path) -> None:
    one = resource(server, "")
    fetch("toy", [one], tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder" / "a.bin").read_bytes() == server.files["a.bin"]
    assert files(tmp_path / "new" / "folder") == ["a.bin"]
    fetch("toy", [one], tmp_path / "new" / "folder")
    assert server.asked == ["a.bin"], "what is there is not fetched again"


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ("cut/", "cut off after 250000 of 500000 bytes"),
        ("flip/", "wrong checksum, sha256 "),
        ("long/", "received more than 500000 bytes"),
        ("none/of-", "HTTP Error 404: Not Found"),
    ],
)
def test_anything_else_leaves_nothing_behind(server: Server, tmp_path: Path, harm: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        fetch("toy", [resource(server, harm)], tmp_path)
    assert files(tmp_path) == []
    text = str(caught.value)
    assert text.startswith("download of toy: expected a.bin of 500000 bytes with sha256 ")
    assert f"put the files into {tmp_path}" in text
    assert server.url + harm + "a.bin" in text


def test_the_next_address_is_tried(server: Server, tmp_path: Path) -> None:
    fetch("toy", [resource(server, "none/of-", "cut/", "flip/", "")], tmp_path)
    assert files(tmp_path) == ["a.bin"]
    assert server.asked == ["none/of-a.bin", "cut/a.bin", "flip/a.bin", "a.bin"]


def test_an_old_file_survives_a_failed_download_of_another(server: Server, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected b.bin"):
        fetch("toy", [resource(server, ""), resource(server, "flip/", name="b.bin")], tmp_path)
    assert files(tmp_path) == ["a.bin"]


def closed_port() -> str:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}/"


def test_offline_says_which_files_to_put_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    nobody = closed_port()
    resources = tuple(replace(r, urls=(nobody + r.file,)) for r in _mnist.MNIST.resources)
    monkeypatch.setattr(_mnist, "MNIST", replace(_mnist.MNIST, resources=resources))
    with pytest.raises(InputError) as caught:
        load("mnist", folder=tmp_path, download=True)
    text = str(caught.value)
    assert "Connection refused" in text
    assert "Without internet access, download" in text
    assert all(nobody + r.file in text for r in resources)
    assert f"put the files into {tmp_path / 'mnist'}" in text
    assert files(tmp_path) == ["mnist"]


def test_mnist_is_fetched_once_and_read(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mnist(tmp_path / "published")
    resources = tuple(
        resource(server, "", name=r.file, content=(tmp_path / "published" / r.file).read_bytes())
        for r in _mnist.MNIST.resources
    )
    monkeypatch.setattr(_mnist, "MNIST", replace(_mnist.MNIST, resources=resources))
    with pytest.raises(InputError, match="download=True"):
        load("mnist", folder=tmp_path / "data")
    assert server.asked == [], "nothing is fetched unasked"
    for _ in range(2):
        assert len(load("mnist", folder=tmp_path / "data", download=True).train) == 30
    assert len(server.asked) == 4
    assert len(load("mnist", folder=tmp_path / "data").test) == 20
    assert files(tmp_path / "data" / "mnist") == sorted(r.file for r in resources)


def test_cifar_is_fetched_into_the_default_folder(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name in (*_cifar10.CIFAR10.train, *_cifar10.CIFAR10.test):
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = 3073
            archive.addfile(member, io.BytesIO(bytes(3073)))
    published = resource(server, "", name="cifar-10-binary.tar.gz", content=stream.getvalue())
    monkeypatch.setattr(_cifar10, "CIFAR10", replace(_cifar10.CIFAR10, archive=published))
    assert len(load("cifar10", download=True).train) == 5
    assert files(tmp_path / "kept") == ["cifar-10-binary.tar.gz"]
    assert len(load("cifar10").test) == 1


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user whom permissions bind")
def test_a_folder_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(InputError, match=r"a folder to write a.bin to; got .*Permission denied"):
            fetch("toy", [resource(server, "")], tmp_path / "new")
    finally:
        tmp_path.chmod(0o700)


def test_a_file_where_the_folder_should_be(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    with pytest.raises(InputError, match=r"a folder to write a.bin to; got .*data \(File exists\)"):
        fetch("toy", [resource(server, "")], tmp_path / "data")
    assert server.asked == []
