"""Two processes that share the work end with the same weights, which are those of one process with all of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import torch
import torch.distributed as dist
from intertwine.groups import Cyclic
from intertwine.nn import Conv2d, GlobalPool, GroupPool, ReLU, Sequential
from intertwine.spaces import Grid2d

rank, store = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
C8 = Cyclic(8)
plane = Grid2d(C8)
one, hidden, few = plane.field(C8.trivial), plane.field(2 * C8.regular), plane.field(2 * C8.trivial)

def network():
    torch.manual_seed(0)
    return Sequential(
        Conv2d(one, hidden, 3), ReLU(hidden), Conv2d(hidden, hidden, 3), GroupPool(hidden), GlobalPool(few)
    ).double()

def train(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])

torch.manual_seed(1)
x, y = torch.randn(4, 1, 9, 9, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
both = torch.nn.parallel.DistributedDataParallel(network())
shared = train(both, x[2 * rank : 2 * rank + 2], y[2 * rank : 2 * rank + 2])
alone = train(network(), x, y)
start = torch.cat([p.detach().flatten() for p in network().parameters()])
print("same" if (shared - alone).abs().max() < 1e-12 < 1e-4 < (alone - start).abs().max() else "different")
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes(tmp_path):
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    done = [worker.communicate(timeout=120) for worker in workers]
    assert [out for out, _ in done] == ["same\n", "same\n"], done
