"""What commutes with ReLU, and what follows for networks: the propositions of Bökman & Kahl (2023) as checks.

The statements are about all inputs. A check either returns the structure that makes a statement true, or an input (a
"witness") that violates it. All matrices are float64 tensors.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..._checked import checked
from ...errors import InputError

TOLERANCE = 1e-9
_SWAP = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)


@checked
@dataclass(frozen=True)
class Verdict:
    """Whether a statement holds, and if not, an input where it fails."""

    holds: bool
    witness: Tensor | None = None

    def __bool__(self) -> bool:
        return self.holds


@checked
@dataclass(frozen=True)
class ScaledPermutation(Verdict):
    """A matrix P D: P a permutation (row i takes entry ``permutation[i]``), D a positive diagonal."""

    permutation: Tensor | None = None
    scales: Tensor | None = None


@checked
def relu_commutes(a: Tensor, b: Tensor) -> ScaledPermutation:
    """Lemma 2.2: for invertible A, B, ReLU(Ax) = B ReLU(x) for all x if and only if A = B = PD.

    Decided by finitely many inputs: −e_k forces A ≥ 0, e_k forces A = B, and A_ik e_l − A_il e_k forces one entry in
    each row.

    >>> verdict = relu_commutes(torch.tensor([[0.0, 2.0], [3.0, 0.0]]), torch.tensor([[0.0, 2.0], [3.0, 0.0]]))
    >>> verdict.permutation, verdict.scales
    (tensor([1, 0]), tensor([3., 2.], dtype=torch.float64))
    >>> bool(relu_commutes(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), torch.tensor([[1.0, 1.0], [0.0, 1.0]])))
    False
    """
    a, b = _matrix(a, "relu_commutes"), _matrix(b, "relu_commutes")
    _require_invertible(a, "relu_commutes")
    _require_invertible(b, "relu_commutes")
    n = len(a)
    eye = torch.eye(n, dtype=torch.float64)
    probes = [s * eye[k] for k in range(n) for s in (-1, 1)]
    for i in range(n):
        used = torch.nonzero(a[i].abs() > TOLERANCE)[:, 0].tolist()
        if len(used) > 1:
            probes.append(a[i, used[0]] * eye[used[1]] - a[i, used[1]] * eye[used[0]])
    for x in probes:
        if (torch.relu(a @ x) - b @ torch.relu(x)).abs().max() > TOLERANCE * max(1.0, float(x.abs().max())):
            return ScaledPermutation(False, x)
    return ScaledPermutation(True, None, a.argmax(1), a.max(0).values)


@checked
def affine_relu_witness(a: Tensor, b: Tensor, shift: Tensor, offset: Tensor) -> Verdict:
    """Lemma E.1: ReLU(Ax + a) = B ReLU(x) + b for all x, with A, B invertible, forces a = b = 0 (and A = B = PD).

    The witnesses of the lemma are 0, ±A⁻¹a and −2A⁻¹a; those of Lemma 2.2 and their multiples decide the rest.

    >>> identity, zero = torch.eye(2), torch.zeros(2)
    >>> [bool(affine_relu_witness(identity, identity, zero, offset)) for offset in (zero, zero + 1)]
    [True, False]
    """
    a, b = _matrix(a, "affine_relu_witness"), _matrix(b, "affine_relu_witness")
    _require_invertible(a, "affine_relu_witness")
    _require_invertible(b, "affine_relu_witness")
    shift, offset = shift.double(), offset.double()
    back = torch.linalg.solve(a, shift)
    probes = [torch.zeros_like(back), back, -back, -2 * back]
    linear = relu_commutes(a, b)
    if linear.witness is not None:
        probes += [t * linear.witness for t in (1.0, 1e3)]
    probes += [t * s * e for e in torch.eye(len(a), dtype=torch.float64) for s in (1, -1) for t in (1.0, 1e3)]
    for x in probes:
        if (torch.relu(a @ x + shift) - b @ torch.relu(x) - offset).abs().max() > TOLERANCE * max(1, x.abs().max()):
            return Verdict(False, x)
    return Verdict(True)


@checked
def to_permutations(representation: Tensor) -> tuple[Tensor, Tensor]:
    """Corollary: matrices ρ(g) = P(g)D(g) of a finite group are conjugate to permutations by a positive diagonal.

    Let c_i be the geometric mean over g of the factor that ρ(g) applies to the entry it moves to i. Then
    diag(c)⁻¹ ρ(g) diag(c) is a permutation for every g.

    Args:
        representation: ``(|G|, n, n)``, all elements of the group.

    Returns:
        The permutation matrices and the diagonal c.

    >>> swap = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 4.0], [0.25, 0.0]]])
    >>> to_permutations(swap)[0][1]
    tensor([[0., 1.],
            [1., 0.]], dtype=torch.float64)
    """
    if representation.ndim != 3:
        raise InputError("to_permutations", expected="matrices (|G|, n, n)", got=str(tuple(representation.shape)))
    rho = representation.double()
    for k, m in enumerate(rho):
        if not relu_commutes(m, m):
            raise InputError(
                "to_permutations",
                expected="scaled permutations",
                got=f"another kind of matrix at index {k}",
                fix="See relu_commutes.",
            )
    c = rho.sum(2).log().mean(0).exp()
    return rho * c[None, None, :] / c[None, :, None], c


@checked
def two_layer_equivariance(w1: Tensor, w2: Tensor, rho0: Tensor, rho2: Tensor) -> ScaledPermutation:
    """Prop. 2.3: f(x) = W2 ReLU(W1 x), W1 and W2 invertible, obeys f(ρ0 x) = ρ2 f(x) for all x if and only if
    ρ0 = W1⁻¹ PD W1 and ρ2 = W2 PD W2⁻¹ with the same PD.

    Then ρ1 = PD makes it layerwise equivariant.
    """
    w1, w2 = _matrix(w1, "two_layer_equivariance"), _matrix(w2, "two_layer_equivariance")
    _require_invertible(w1, "two_layer_equivariance")
    _require_invertible(w2, "two_layer_equivariance")
    inner = w1 @ rho0.double() @ torch.linalg.inv(w1)
    outer = torch.linalg.inv(w2) @ rho2.double() @ w2
    verdict = relu_commutes(inner, outer)
    if verdict.witness is not None:  # map the witness from the hidden layer back to the input
        return ScaledPermutation(False, torch.linalg.solve(w1, verdict.witness))
    return verdict


@checked
def scalar_invariance(w1: Tensor, w2: Tensor, rho0: Tensor) -> Verdict:
    """Prop. B.1: f(x) = w2 ReLU(W1 x), W1 invertible, no entry of w2 zero, is invariant under ρ0 if and only if
    W1 ρ0 W1⁻¹, with the factors |w2_i| moved into the rows of W1, permutes the units of each sign among themselves.
    """
    w1, w2 = _matrix(w1, "scalar_invariance"), w2.double().reshape(-1)
    _require_invertible(w1, "scalar_invariance")
    if bool((w2 == 0).any()):
        raise InputError(
            "scalar_invariance", expected="nonzero weights w2", got=str(w2), fix="Remove units with weight 0."
        )
    rows, signs = w2.abs()[:, None] * w1, w2.sign()
    inner = rows @ rho0.double() @ torch.linalg.inv(rows)
    n = len(rows)
    p = inner.argmax(1)
    shape = torch.zeros_like(inner)
    shape[torch.arange(n), p] = 1
    if (inner - shape).abs().max() <= TOLERANCE and len(set(p.tolist())) == n and torch.equal(signs[p], signs):
        return Verdict(True)
    eye = torch.eye(n, dtype=torch.float64)
    probes = [s * e for e in eye for s in (1, -1)] + [e + s * f for e in eye for f in eye for s in (1, -1)]
    probes += list(torch.randn(4096, n, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))

    def value(y: Tensor) -> Tensor:
        return (signs * torch.relu(y)).sum()

    worst = max(probes, key=lambda y: float((value(inner @ y) - value(y)).abs() / (1 + y.abs().max())))
    return Verdict(False, torch.linalg.solve(rows, worst))


@checked
def hidden_action(w1: Tensor, rho0: Tensor) -> Tensor | None:
    """A matrix ρ1 with ρ1 W1 = W1 ρ0, or None if there is none (Example 2.1: W1 = (1 0) and the swap).

    >>> swap = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> hidden_action(torch.tensor([[1.0, 0.0]]), swap) is None
    True
    """
    w1 = w1.double()
    if w1.ndim != 2 or rho0.shape != (w1.shape[1],) * 2 or not bool(torch.isfinite(w1).all()):
        raise InputError(
            "hidden_action",
            expected="finite matrices W1 (m, n) and ρ0 (n, n)",
            got=f"{tuple(w1.shape)} and {tuple(rho0.shape)}",
        )
    target = w1 @ rho0.double()
    matrix = target @ torch.linalg.pinv(w1)
    return matrix if (matrix @ w1 - target).abs().max() <= TOLERANCE * max(1.0, float(target.abs().max())) else None


@checked
def swap_invariant(w1: Tensor, w2: Tensor) -> Verdict:
    """Whether f(x) = w2 ReLU(W1 x) on the plane is invariant to swapping its two inputs.

    The function is linear between the rays where a unit or its mirror image switches. So it is enough to check these
    rays and one ray in each sector between them.

    >>> bool(swap_invariant(torch.tensor([[1.0, 1.0]]), torch.tensor([2.0])))
    True
    """
    if w1.ndim != 2 or w1.shape[1] != 2 or w2.numel() != len(w1):
        raise InputError(
            "swap_invariant",
            expected="W1 of shape (m, 2) and m weights w2",
            got=f"{tuple(w1.shape)} and {tuple(w2.shape)}",
        )
    w1, w2 = w1.double(), w2.double().reshape(-1)
    rows = torch.cat([w1, w1 @ _SWAP])
    rows = rows[rows.abs().max(1).values > TOLERANCE]
    angles = torch.atan2(rows[:, 0], -rows[:, 1])
    angles = torch.cat([angles, angles + torch.pi, torch.tensor([0.0], dtype=torch.float64)]) % (2 * torch.pi)
    angles = angles.sort().values
    turned = torch.cat([angles[1:], angles[:1] + 2 * torch.pi])
    rays = torch.cat([angles, (angles + turned) / 2, angles + (turned - angles) / 3])
    x = torch.stack([rays.cos(), rays.sin()], 1)
    gap = torch.relu(x @ w1.T) @ w2 - torch.relu(x @ _SWAP @ w1.T) @ w2
    k = int(gap.abs().argmax())
    return Verdict(bool(gap[k].abs() <= TOLERANCE * (1 + w1.abs().max() * w2.abs().max())), x[k])


@checked
def layerwise_swap_net(w1: Tensor, w2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Prop. D.1: a 2-2-1 network invariant to swapping its inputs equals a layerwise equivariant one of the same shape.

    Returns W1', w2' and ρ1 (the identity or the swap) with the same function, ρ1 W1' = W1' J and w2' ρ1 = w2'.

    >>> first, second, rho1 = layerwise_swap_net(torch.tensor([[1.0, -1.0], [-2.0, 2.0]]), torch.tensor([2.0, 1.0]))
    >>> first, second, rho1
    (tensor([[ 2., -2.],
            [-2.,  2.]], dtype=torch.float64), tensor([1., 1.], dtype=torch.float64), tensor([[0., 1.],
            [1., 0.]], dtype=torch.float64))
    """
    invariant = swap_invariant(w1, w2)
    if not invariant:
        raise InputError(
            "layerwise_swap_net",
            expected="a network that is invariant to the swap",
            got=f"different values at x = {invariant.witness} and at its swap",
        )
    w1, w2 = w1.double(), w2.double().reshape(-1)
    rows = w2.abs()[:, None] * w1  # units with weight 0 become zero rows
    signs = torch.where(w2 < 0, -1.0, 1.0).double()
    eye = torch.eye(2, dtype=torch.float64)
    scale = TOLERANCE * (1 + float(rows.abs().max()))
    if (rows @ _SWAP - rows).abs().max() <= scale:
        return rows, signs, eye
    if (_SWAP @ rows @ _SWAP - rows).abs().max() <= scale and signs[0] == signs[1]:
        return rows, signs, _SWAP.clone()
    # The only remaining case is the zero function: units that cancel each other.
    return torch.zeros_like(rows), torch.ones(2, dtype=torch.float64), eye


@checked
def absolute_value_errors(x: Tensor) -> tuple[float, float, float]:
    """Example C.1: mean L1 errors of three networks without biases for the target |x| on symmetric samples.

    The networks are the only layerwise equivariant one of widths 1-1-1 (it is 0), W1 = W2 = 1 (half the error), and the
    layerwise equivariant one with two hidden units, W1 = (1, −1)ᵀ, W2 = (1, 1), which is exact.

    >>> absolute_value_errors(torch.tensor([-1.0, 1.0]))
    (1.0, 0.5, 0.0)
    """
    x = x.double()
    target = x.abs()
    two = torch.relu(x) + torch.relu(-x)
    return tuple(float((y - target).abs().mean()) for y in (torch.zeros_like(x), torch.relu(x), two))  # type: ignore[return-value]


def _matrix(m: Tensor, caller: str) -> Tensor:
    if m.dim() != 2 or m.shape[0] != m.shape[1]:
        raise InputError(caller, expected="a square matrix", got=f"shape {tuple(m.shape)}")
    return m.double()


def _require_invertible(m: Tensor, caller: str) -> None:
    values = torch.linalg.svdvals(m)
    if values[-1] <= 1e-12 * values[0]:
        raise InputError(caller, expected="an invertible matrix", got="a singular one")
