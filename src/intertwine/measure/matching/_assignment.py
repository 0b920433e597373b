"""The best permutation, and the best involution, for a matrix of scores."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

LARGEST = 256
"""The maximum size of a connected component of candidate pairs for which the exact search is fast enough."""


def best_permutation(scores: Tensor, *, dead: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """The permutation p that maximizes Σ_i scores[i, p[i]].

    Args:
        scores: ``(n, n)``.
        dead: which rows and which columns belong to channels that do not vary. They are assigned to each other, to
            themselves if possible, and to live channels only if the numbers of dead channels differ.

    >>> best_permutation(torch.tensor([[0.1, 0.9], [0.8, 0.7]]))
    tensor([1, 0])
    """
    from scipy.optimize import linear_sum_assignment

    weights = scores.double().cpu().numpy()
    if dead is not None:
        weights = with_dead(weights, *(d.cpu().numpy() for d in dead))
    return torch.from_numpy(linear_sum_assignment(weights, maximize=True)[1])


def with_dead(scores: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Scores under which dead channels pair with dead channels, preferably with themselves."""
    out = scores.copy()
    # Correlations lie in [−1, 1], so swapping two live-dead pairs for a live-live and a dead-dead pair always gains.
    out[rows], out[:, columns] = -4.0, -4.0
    out[np.ix_(rows, columns)] = 0.0
    both = np.flatnonzero(rows & columns)
    out[both, both] = 1e-3
    return out


def best_involution(scores: Tensor, *, dead: Tensor | None = None) -> Tensor:
    """The involution p, p[p[i]] = i, that maximizes Σ_i scores[i, p[i]]; dead channels stay fixed.

    With S the symmetric part of the scores, this is a maximum-weight matching on a general graph: a pair {i, j} is
    worth 2 S_ij, a fixed point S_ii. The best permutation for S gives an upper bound. If its cycles are even or fixed
    points, splitting them into pairs gives an involution that reaches the bound. Otherwise the dual of the assignment
    tells which pairs can belong to an optimal involution: those whose reduced costs do not exceed the gap between the
    bound and the split. Edmonds' algorithm runs on these pairs only, and the result is exact. If more than 256 channels
    are connected by such pairs, the split is kept: its gap is then a small fraction of one channel's score.

    >>> best_involution(torch.tensor([[0.0, 1.0, 0.9], [1.0, 0.0, 0.8], [0.9, 0.8, 0.0]]))
    tensor([1, 0, 2])
    """
    from scipy.optimize import linear_sum_assignment

    n = len(scores)
    permutation = torch.arange(n)
    live = torch.arange(n) if dead is None else torch.nonzero(~dead.cpu())[:, 0]
    if len(live) < 2:
        return permutation
    s = scores.double().cpu().numpy()[np.ix_(live.numpy(), live.numpy())]
    s = (s + s.T) / 2
    # The assignment comes first because it is cheap: about 10 ms for 512 channels, where networkx needs seconds for the
    # matching of all pairs of 256. Often its split already reaches the upper bound.
    p = linear_sum_assignment(s, maximize=True)[1]
    split, odd = _split_cycles(s, p)
    gap = float(s[np.arange(len(s)), p].sum() - s[np.arange(len(s)), split].sum())
    if odd and gap > 1e-12 * len(s):
        split = _matching(s, p, split, gap)
    permutation[live] = live[torch.from_numpy(split)]
    return permutation


def _split_cycles(s: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, bool]:
    """Split the best permutation into an involution; also return whether it could be improved.

    Even cycles split into pairs. An odd cycle leaves one channel over. The leftover channels of two odd cycles can be
    paired; which cycles to pair is a matching again, but of a few cycles only.
    """
    out, odd = np.arange(len(p)), []
    for c in _cycles(p):
        if len(c) % 2 == 0:
            options = [np.roll(c, -shift).reshape(-1, 2) for shift in (0, 1)]
            _pair(out, max(options, key=lambda pairs: s[pairs[:, 0], pairs[:, 1]].sum()))
        elif len(c) > 1:
            odd.append(c)
    if odd:
        _join(s, out, odd)
    return out, bool(odd)


def _cycles(p: np.ndarray) -> list[np.ndarray]:
    seen, all_cycles = np.zeros(len(p), bool), []
    for start in range(len(p)):
        cycle, k = [], start
        while not seen[k]:
            seen[k] = True
            cycle.append(k)
            k = p[k]
        if cycle:
            all_cycles.append(np.array(cycle))
    return all_cycles


def _pair(out: np.ndarray, pairs: np.ndarray) -> None:
    out[pairs[:, 0]], out[pairs[:, 1]] = pairs[:, 1], pairs[:, 0]


def _join(s: np.ndarray, out: np.ndarray, odd: list[np.ndarray]) -> None:
    """Pair the channels of odd cycles, joining two cycles by their leftover channels where that gains."""
    import networkx

    def rest(c: np.ndarray, k: int) -> np.ndarray:
        """The pairs of a cycle without its entry k."""
        return np.roll(c, -k)[1:].reshape(-1, 2)

    without = [np.array([2 * s[tuple(rest(c, k).T)].sum() for k in range(len(c))]) for c in odd]
    alone = [int(np.argmax(w + s[c, c])) for c, w in zip(odd, without, strict=True)]
    value = [float(w[k] + s[c[k], c[k]]) for c, w, k in zip(odd, without, alone, strict=True)]
    graph, choice = networkx.Graph(), {}
    for a in range(len(odd)):
        for b in range(a):
            joint = without[a][:, None] + without[b][None] + 2 * s[np.ix_(odd[a], odd[b])]
            i, j = divmod(int(joint.argmax()), joint.shape[1])
            gain = float(joint[i, j]) - value[a] - value[b]
            if gain > 0:
                choice[a, b] = (i, j)
                graph.add_edge(a, b, weight=gain)
    left = set(range(len(odd)))
    for a, b in networkx.max_weight_matching(graph):
        a, b = max(a, b), min(a, b)
        i, j = choice[a, b]
        for c, k in ((odd[a], i), (odd[b], j)):
            _pair(out, rest(c, k))
        _pair(out, np.array([[odd[a][i], odd[b][j]]]))
        left -= {a, b}
    for a in left:
        _pair(out, rest(odd[a], alone[a]))


def _matching(s: np.ndarray, p: np.ndarray, split: np.ndarray, gap: float) -> np.ndarray:
    """The best involution, searched among the pairs that can belong to it."""
    import networkx

    # A pair that lowers the upper bound by more than the gap cannot belong to an involution better than the split. This
    # leaves few pairs of the n², and makes the exact search affordable.
    slack = _reduced_costs(s, p)
    pair_slack = slack + slack.T
    worth = 2 * s - np.diag(s)[:, None] - np.diag(s)[None]
    rows, columns = np.nonzero(np.triu((pair_slack <= gap + 1e-9) & (worth > 0), 1))
    graph = networkx.Graph()
    graph.add_weighted_edges_from(zip(rows.tolist(), columns.tolist(), worth[rows, columns].tolist(), strict=True))
    out = np.arange(len(s))
    # The remaining pairs form many small components. Where the split already reaches the bound, it is optimal.
    for component in networkx.connected_components(graph):
        c = np.array(sorted(component))
        if len(c) > LARGEST or slack[c, split[c]].sum() <= 1e-12 * len(c):
            out[c] = split[c]
            continue
        for i, j in networkx.max_weight_matching(graph.subgraph(component).copy()):
            out[i], out[j] = j, i
    every = np.arange(len(s))
    return out if s[every, out].sum() >= s[every, split].sum() else split


def _reduced_costs(s: np.ndarray, p: np.ndarray) -> np.ndarray:
    """u_i + v_j − s_ij ≥ 0 for optimal dual variables of the assignment p."""
    # scipy does not return the dual variables. They are shortest paths in the residual graph of the assignment, found
    # by vectorized Bellman-Ford steps, of which far fewer than n are needed (29 for 512 random channels).
    every = np.arange(len(s))
    chosen = s[every, p]
    v = np.zeros(len(s))
    for _ in range(len(s)):
        new = v.copy()
        new[p] = np.minimum(v[p], (v[None] - s).min(1) + chosen)
        if np.allclose(new, v, rtol=0, atol=1e-13):
            break
        v = new
    u = chosen - v[p]
    return np.maximum(u[:, None] + v[None] - s, 0.0)


def cycle_lengths(p: Tensor) -> Tensor:
    """For each i, the length of the cycle of p that contains it.

    >>> cycle_lengths(torch.tensor([1, 0, 2, 4, 5, 3]))
    tensor([2, 2, 1, 3, 3, 3])
    """
    out, steps = torch.zeros_like(p), p.clone()
    every = torch.arange(len(p), device=p.device)
    k = 1
    while bool((out == 0).any()):
        out[(out == 0) & (steps == every)] = k
        steps, k = p[steps], k + 1
    return out
