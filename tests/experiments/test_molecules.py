"""Trajectories of molecules, and networks that return energies and forces."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from intertwine.errors import InputError
from intertwine.experiments.clouds import _trajectory
from intertwine.experiments.clouds._energy_network import EnergyModel, energy_and_force_loss, relative
from intertwine.experiments.clouds._molecules import energy_network
from intertwine.experiments.clouds._trajectory import morse_cluster, quantum_trajectory


@pytest.fixture(scope="module")
def cluster():
    return morse_cluster(4, seed=0)


@pytest.fixture
def model(cluster) -> EnergyModel:
    torch.manual_seed(0)
    network = energy_network(2, scalars=4, fields=2, degree=2, layers=1, radius=5.0)
    return EnergyModel(network.double(), cluster.numbers, 1.0)


def test_the_forces_of_a_cluster_are_balanced(cluster) -> None:
    assert cluster.forces.sum(1).abs().max() < 1e-12
    torque = torch.linalg.cross(cluster.positions, cluster.forces).sum(1)
    assert torque.abs().max() < 1e-12
    assert not torch.equal(morse_cluster(4, seed=1).positions, cluster.positions)


def test_energies_stay_and_forces_turn(model: EnergyModel, cluster) -> None:
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
    energies, forces = model(cluster.positions)
    moved_energies, moved_forces = model(cluster.positions @ turn.T + 2.0)
    torch.testing.assert_close(moved_energies, energies, rtol=0, atol=1e-10)
    torch.testing.assert_close(moved_forces, forces @ turn.T, rtol=0, atol=1e-10)


def test_atoms_of_one_element_can_be_exchanged(model: EnergyModel, cluster) -> None:
    energies, forces = model(cluster.positions)
    order = [1, 0, 2, 3, 4, 5]  # two carbon atoms
    swapped_energies, swapped_forces = model(cluster.positions[:, order])
    torch.testing.assert_close(swapped_energies, energies, rtol=0, atol=1e-10)
    torch.testing.assert_close(swapped_forces, forces[:, order], rtol=0, atol=1e-10)
    unlike = model(cluster.positions[:, [2, 1, 0, 3, 4, 5]])[0]  # carbon and oxygen
    assert (unlike - energies).abs().max() > 1e-4


def test_forces_are_the_slope_of_the_energy(model: EnergyModel, cluster) -> None:
    _, forces = model(cluster.positions)
    direction = torch.randn_like(cluster.positions)
    high, low = (model(cluster.positions + step * direction)[0] for step in (1e-5, -1e-5))
    torch.testing.assert_close((low - high) / 2e-5, (forces * direction).sum((1, 2)), rtol=1e-6, atol=1e-7)


def test_training_on_forces_reaches_the_weights(cluster) -> None:
    torch.manual_seed(0)
    model = EnergyModel(energy_network(2, scalars=4, fields=2, degree=1, layers=1, radius=5.0), cluster.numbers, 1.0)
    batch = relative(cluster, cluster)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        losses.append(energy_and_force_loss(model, batch, energy_weight=0.0, scale=1.0))
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.2 * losses[0]


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tblite", None)
    monkeypatch.setitem(sys.modules, "ase", None)
    with pytest.raises(InputError, match=r"intertwine\[molecules\]"):
        quantum_trajectory("H2O", 2, every=1, temperature=300.0, seed=0, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_foreign_file_is_named(tmp_path: Path) -> None:
    save_file({"numbers": torch.ones(3)}, tmp_path / "H2O-2x1-300K-seed0.safetensors")
    with pytest.raises(InputError, match="positions, energies, forces; got numbers"):
        quantum_trajectory("H2O", 2, every=1, temperature=300.0, seed=0, folder=tmp_path)


def test_an_unknown_molecule_is_explained(tmp_path: Path) -> None:
    pytest.importorskip("tblite")
    pytest.importorskip("ase")
    with pytest.raises(InputError, match="got 'phlogiston'"):
        quantum_trajectory("phlogiston", 2, every=1, temperature=300.0, seed=0, folder=tmp_path)


def test_a_quantum_trajectory_is_kept_and_repeatable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tblite")
    pytest.importorskip("ase")
    monkeypatch.setattr(_trajectory, "_EQUILIBRATION", 100)
    first, other = (
        quantum_trajectory("H2O", 3, every=2, temperature=300.0, seed=0, folder=tmp_path / name) for name in "ab"
    )
    (file,) = (tmp_path / "a").iterdir()
    kept = quantum_trajectory("H2O", 3, every=2, temperature=300.0, seed=0, folder=tmp_path / "a")
    assert file.stat().st_mtime_ns == next((tmp_path / "a").iterdir()).stat().st_mtime_ns
    for name, values in vars(first).items():
        assert torch.equal(values, getattr(kept, name))
        torch.testing.assert_close(values, getattr(other, name), rtol=0, atol=1e-6)
    assert first.forces.sum(1).abs().max() < 1e-3  # xTB converges its energy to a tolerance
