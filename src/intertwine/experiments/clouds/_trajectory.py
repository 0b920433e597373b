"""Energies and forces of a molecule along trajectories: a quantum-chemical method, or a pair potential."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..._files import replace_file
from ..._untrusted import read_tensors
from ...errors import InputError

_TIME_STEP = 0.5
_FRICTION = 0.01
"""Femtoseconds, and 1 per femtosecond."""

_EQUILIBRATION = 2000
"""Steps before the first frame."""


@dataclass(frozen=True)
class Trajectory:
    """Frames of one molecule.

    Attributes:
        numbers: ``(atoms,)`` atomic numbers.
        positions: ``(frames, atoms, 3)`` in Å.
        energies: ``(frames,)`` in eV.
        forces: ``(frames, atoms, 3)`` in eV/Å.
    """

    numbers: Tensor
    positions: Tensor
    energies: Tensor
    forces: Tensor

    def tensors(self) -> tuple[Tensor, ...]:
        """Positions, energies and forces, as a dataset takes them."""
        return self.positions, self.energies, self.forces


def quantum_trajectory(
    molecule: str, frames: int, *, every: int, temperature: float, seed: int, folder: Path
) -> Trajectory:
    """Langevin dynamics with GFN2-xTB, read from the folder if it was computed before.

    Args:
        molecule: a name in ASE's list of molecules, such as ``CH3CH2OH``.
        frames: how many frames to keep.
        every: steps of half a femtosecond between frames.
        temperature: in kelvin.
        seed: of the velocities and the random forces.
        folder: where trajectories are kept.
    """
    path = folder / f"{molecule}-{frames}x{every}-{temperature:g}K-seed{seed}.safetensors"
    return _kept(path, lambda: _langevin(molecule, frames, every, temperature, seed))


def _kept(path: Path, compute: Callable[[], Trajectory]) -> Trajectory:
    from safetensors.torch import save

    try:
        tensors = read_tensors(path)
    except FileNotFoundError:
        trajectory = compute()
    else:
        return _read(path, tensors)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, save({name: values.contiguous() for name, values in vars(trajectory).items()}))
    return trajectory


def _read(path: Path, tensors: dict[str, Tensor]) -> Trajectory:
    names = [field.name for field in fields(Trajectory)]
    if sorted(tensors) != sorted(names):
        raise InputError(
            str(path),
            expected=f"the tensors {', '.join(names)}",
            got=", ".join(sorted(tensors)) or "none",
            fix="Remove the file, and the trajectory is computed again.",
        )
    return Trajectory(**tensors)


def _langevin(molecule: str, frames: int, every: int, temperature: float, seed: int) -> Trajectory:
    import numpy as np

    ase, calculator = _chemistry()
    noise = np.random.RandomState(seed)
    try:
        atoms = ase.build.molecule(molecule)
    except KeyError as error:
        raise InputError(
            "experiment molecules", expected="a molecule that ase.build.molecule knows", got=repr(molecule)
        ) from error
    atoms.calc = calculator
    spread = np.sqrt(atoms.get_masses() * ase.units.kB * temperature)
    atoms.set_momenta(spread[:, None] * noise.standard_normal((len(atoms), 3)))
    dynamics = ase.md.langevin.Langevin(
        atoms,
        _TIME_STEP * ase.units.fs,
        temperature_K=temperature,
        friction=_FRICTION / ase.units.fs,
        rng=noise,
        fixcm=False,
    )
    dynamics.run(_EQUILIBRATION)
    states = []
    for _ in range(frames):
        dynamics.run(every)
        states.append((atoms.get_positions(), atoms.get_potential_energy(), atoms.get_forces()))
    columns = (torch.from_numpy(np.array(column, dtype=np.float64)) for column in zip(*states, strict=True))
    return Trajectory(torch.from_numpy(atoms.get_atomic_numbers()).long(), *columns)


def _chemistry() -> tuple[Any, Any]:
    """ASE, and a calculator of energies and forces."""
    try:
        import ase.build
        import ase.md.langevin
        import ase.units
        from tblite.ase import TBLite
    except ImportError as error:
        raise InputError(
            "experiment molecules",
            expected="ASE and tblite",
            got=str(error),
            fix="Install the extra: pip install 'intertwine[molecules]'.",
        ) from error
    return ase, TBLite(method="GFN2-xTB", verbosity=0)


def morse_cluster(frames: int, *, seed: int) -> Trajectory:
    """Six atoms of two kinds around the corners of an octahedron, held together by Morse potentials.

    Random displacements instead of dynamics: the same kind of task without a quantum-chemical method.
    """
    noise = torch.Generator().manual_seed(seed)
    axes = 1.1 * torch.eye(3, dtype=torch.float64)
    numbers = torch.tensor([6, 6, 8, 8, 8, 6])
    x = torch.cat([axes, -axes]) + 0.1 * torch.randn(frames, 6, 3, dtype=torch.float64, generator=noise)
    x.requires_grad_()
    first, second = torch.triu_indices(6, 6, 1)
    distance = (x[:, first] - x[:, second]).norm(dim=-1)
    depth = 1.0 + 0.5 * (numbers[first] != numbers[second])
    energies = (depth * ((1 - torch.exp(-1.5 * (distance - 1.5))).square() - 1)).sum(1)
    (gradient,) = torch.autograd.grad(energies.sum(), x)
    return Trajectory(numbers, x.detach(), energies.detach(), -gradient)
