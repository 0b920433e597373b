"""The cache of solved bases: content addressed, shared by processes, safe under kills, damage and full disks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from intertwine.groups import Dihedral, Symmetric
from intertwine.kernels import _cache, clear_cache, solve
from intertwine.spaces import HomogeneousSpace


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("INTERTWINE_CACHE", str(tmp_path / "cache"))
    clear_cache()
    yield tmp_path / "cache"
    clear_cache()


def types(group=None):
    group = group or Symmetric(4)
    h = group.subgroup([1])
    space = HomogeneousSpace(group, h)
    return space.field(h.regular), space.field(h.irreps[1])


def files(folder):
    return sorted(folder.rglob("*.safetensors"))


def test_a_second_process_reads_what_the_first_solved(folder, monkeypatch):
    first = solve(*types()).on_cosets()
    assert len(files(folder)) == 1
    clear_cache()
    from intertwine.kernels import _orbits

    monkeypatch.setattr(_orbits, "solve_orbit", lambda *a: pytest.fail("solved again"))
    assert torch.equal(solve(*types()).on_cosets(), first)


def test_the_name_follows_the_content(folder):
    solve(*types())
    group = Symmetric(4)
    h = group.subgroup([1])
    other = HomogeneousSpace(group, h)
    solve(other.field(h.regular), other.field(h.regular))
    assert len(files(folder)) == 2
    a, b = types(Dihedral(4))
    solve(a, b)
    assert len(files(folder)) == 3


def test_a_new_solver_version_does_not_read_the_old(folder, monkeypatch):
    solve(*types())
    clear_cache()
    monkeypatch.setattr(_cache, "SOLVER_VERSION", _cache.SOLVER_VERSION + 1)
    solve(*types())
    assert len(files(folder)) == 2


@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage", "other shapes"])
def test_damaged_files_are_solved_again(folder, damage):
    expected = solve(*types()).on_cosets()
    path = files(folder)[0]
    whole = path.read_bytes()
    if damage == "other shapes":
        from safetensors.torch import save

        whole = save({"0": torch.zeros(1, 1, 1, dtype=torch.float64)})
    path.write_bytes({"empty": b"", "truncated": whole[:-9], "garbage": b"\xff" * 200, "other shapes": whole}[damage])
    clear_cache()
    assert torch.equal(solve(*types()).on_cosets(), expected)
    clear_cache()
    assert torch.equal(solve(*types()).on_cosets(), expected)


def test_forged_numbers_are_caught(folder):
    from safetensors.torch import load, save

    from intertwine.errors import NumericalError

    group = Symmetric(4)
    h = group.find_subgroup("S3")
    space = HomogeneousSpace(group, h)
    solve(space.field(h.irreps[2]), space.field(h.irreps[2]))
    path = files(folder)[0]
    path.write_bytes(save({k: torch.randn_like(v) for k, v in load(path.read_bytes()).items()}))
    clear_cache()
    with pytest.raises(NumericalError, match="the kernel cache holds bad data"):
        solve(space.field(h.irreps[2]), space.field(h.irreps[2]))


def test_off(monkeypatch, tmp_path):
    monkeypatch.setenv("INTERTWINE_CACHE", "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    clear_cache()
    assert solve(*types()).dim > 0
    assert not list(tmp_path.rglob("*"))


def test_a_folder_that_cannot_be_made(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("INTERTWINE_CACHE", str(tmp_path / "file" / "cache"))
    clear_cache()
    assert solve(*types()).dim > 0


WORK = """
import os, sys
from intertwine.groups import Dihedral
from intertwine.kernels import solve
from intertwine.spaces import HomogeneousSpace

def work(count, out):
    '''Solve this many bases: one line per basis, then their total dimension.'''
    total = 0
    for n in range(3, 3 + count):
        group = Dihedral(n)
        h = group.subgroup([n])
        space = HomogeneousSpace(group, h)
        total += solve(space.field(h.regular), space.field(h.regular)).dim
        os.write(out, b"%d\\n" % n)
    os.write(out, b"total %d\\n" % total)

def start(count):
    '''A process that works, forked from one that has imported everything and solved nothing; its output.'''
    read, write = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            work(count, write)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    return child, os.fdopen(read)
"""


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", WORK + code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.mark.usefixtures("forked_children")
@needs_fork
def test_concurrent_processes(folder):
    lines = run("""
workers = [start(25) for _ in range(3)]
for child, out in workers:
    print(out.read().splitlines()[-1])
    assert os.waitpid(child, 0)[1] == 0
""")
    assert len(lines) == 3
    assert len(set(lines)) == 1
    assert lines[0].startswith("total ")
    assert len(files(folder)) == 25
    assert not list(folder.rglob(".part-*"))


@pytest.mark.usefixtures("forked_children")
@needs_fork
def test_killed_processes_leave_whole_files_or_none(folder):
    killed = run("""
import signal, time
for delay in (0.0, 0.003, 0.01, 0.02, 0.04):
    child, out = start(200)
    out.readline()  # it is at work
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    assert killed == ["-9"] * 5
    from safetensors.torch import load

    paths = files(folder)
    assert paths
    for path in paths:
        load(path.read_bytes())
    assert run("work(25, 1)")[-1].startswith("total")
