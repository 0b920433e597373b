"""The best permutation, and the best representation, of attention heads and of the channels inside them.

Heads are permuted as wholes, and each of them permutes its channels in its own way: queries and keys by one
permutation, values by another. How well two heads match is how well their channels do under the best assignment.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ...groups import FiniteGroup
from ._assignment import best_involution, best_permutation
from ._representation import best_representation

HEADS = ""
"""The key of the heads themselves among the channels inside them."""


def best_heads(heads: int, scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Permutations of heads and of the channels inside them that maximize the sum of scores.

    Args:
        heads: the number of heads.
        scores: by group, a matrix over all its channels, head by head; for the heads themselves under :data:`HEADS`.

    >>> twins = torch.block_diag(torch.ones(2, 2), torch.eye(2))
    >>> best_heads(2, {"q": twins.roll(2, 0)})[HEADS]
    tensor([1, 0])
    """
    table = _head_table(heads, scores, None)
    sigma = best_permutation(table)
    out = {HEADS: sigma}
    for name, score in _inside(scores):
        blocks, size = _blocks(score, heads), len(score) // heads
        inside = [int(h) * size + best_permutation(blocks[i, int(h)]) for i, h in enumerate(sigma)]
        out[name] = torch.cat(inside)
    return out


def best_head_representation(
    group: FiniteGroup, heads: int, scores: Mapping[int, Mapping[str, Tensor]]
) -> dict[int, dict[str, Tensor]]:
    """A representation of the group on the heads and on the channels inside them that (nearly) maximizes the scores.

    First the heads are arranged into orbits, by the scores of the best assignments of their channels. Then one head of
    each orbit carries a representation of its stabilizer, and the others follow by the best assignments to it. For a
    mirror this is optimal up to ties between heads.

    Args:
        group: a finite group.
        heads: the number of heads.
        scores: for each element except the identity, scores as in :func:`best_heads`.
    """
    both = {g: {n: s.double().cpu() for n, s in table.items()} for g, table in scores.items()}
    both = {g: {n: s + both[int(group.inverse(g))][n].T for n, s in table.items()} for g, table in both.items()}
    tables = {g: _head_table(heads, both[g], g == int(group.inverse(g))) for g in both}
    sigma = best_representation(group, tables)
    out: dict[int, dict[str, Tensor]] = {g: {HEADS: sigma[g]} for g in range(group.order)}
    for name, first in _inside(next(iter(both.values()))):
        inside = {g: _blocks(both[g][name], heads) for g in both}
        for g, p in _induced(group, sigma, inside, len(first) // heads).items():
            out[g][name] = p
    return out


def _inside(scores: Mapping[str, Tensor]) -> list[tuple[str, Tensor]]:
    return [(name, score) for name, score in scores.items() if name != HEADS]


def _blocks(scores: Tensor, heads: int) -> Tensor:
    """Scores of all channels as (head, head, channel, channel)."""
    size = len(scores) // heads
    return scores.reshape(heads, size, heads, size).transpose(1, 2)


def _head_table(heads: int, scores: Mapping[str, Tensor], involution: bool | None) -> Tensor:
    table = torch.zeros(heads, heads, dtype=torch.float64)
    if HEADS in scores:
        table += scores[HEADS].double().cpu()
    for _, score in _inside(scores):
        blocks = _blocks(score.double().cpu(), heads)
        for i in range(heads):
            for j in range(heads):
                p = best_involution(blocks[i, j]) if involution and i == j else best_permutation(blocks[i, j])
                table[i, j] += blocks[i, j].gather(1, p[:, None]).mean()
    return table


def _induced(
    group: FiniteGroup, sigma: Mapping[int, Tensor], scores: Mapping[int, Tensor], size: int
) -> dict[int, Tensor]:
    """The channels inside heads that move as ``sigma`` says: slot i of g is filled from channel p_g[i]."""
    heads = len(sigma[0])
    # Element g sends head h to the slot that it fills.
    sent = {g: torch.argsort(p).tolist() for g, p in sigma.items()}
    out = {g: torch.zeros(heads * size, dtype=torch.long) for g in sigma}
    seen: set[int] = set()
    for base in range(heads):
        if base in seen:
            continue
        carrier: dict[int, int] = {}
        for g in range(group.order):
            carrier.setdefault(sent[g][base], g)
        seen |= set(carrier)
        frames = {base: torch.arange(size)}
        for h, g in carrier.items():
            if h != base:
                frames[h] = best_permutation(scores[g][h, base].T)
        steps = {
            (g, h): int(group.compose(int(group.inverse(carrier[sent[g][h]])), int(group.compose(g, carrier[h]))))
            for g in range(group.order)
            for h in carrier
        }
        still = group.subgroup(elements=sorted(set(steps.values())))
        inside = {0: torch.arange(size)}
        if still.order > 1:
            tables = {k: torch.zeros(size, size, dtype=torch.float64) for k in range(1, still.order)}
            for (g, h), step in steps.items():
                k = int(still.from_parent(step))
                if k:
                    tables[k] += scores[g][sent[g][h], h][frames[sent[g][h]]][:, frames[h]]
            inside = best_representation(still, tables)
        for (g, h), step in steps.items():
            there = sent[g][h]
            slots = there * size + frames[there]
            out[g][slots] = h * size + frames[h][inside[int(still.from_parent(step))]]
    return out
