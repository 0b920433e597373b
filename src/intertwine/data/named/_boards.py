"""Tic-tac-toe boards: labeled by outcome, which turns and mirrors keep, or by one corner, which they don't."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from .._image_data import ImageData
from .._registry import register_dataset
from .._split import Split
from ..sources._source import TensorImages

_LINES = [
    *([3 * r, 3 * r + 1, 3 * r + 2] for r in range(3)),
    *([c, c + 3, c + 6] for c in range(3)),
    [0, 4, 8],
    [2, 4, 6],
]
_FILES = "none; it is computed"
_CORNER_BOARDS = 1000


@register_dataset(
    "tic-tac-toe",
    about="The 958 boards at the end of a game of tic-tac-toe, labeled by whether X has won.",
    files=_FILES,
)
def tic_tac_toe(folder: Path | None, *, download: bool, seed: int = 0) -> ImageData:
    """Two channels: where X is, and where O is. The seed determines the order of the boards."""
    boards = _final_boards()
    won = torch.tensor([_wins(board, 1) for board in boards.tolist()])
    return _data("tic-tac-toe", boards, won.long(), ("X has not won", "X has won"), seed)


@register_dataset(
    "tic-tac-toe-corner",
    about="1000 random 3 x 3 boards, labeled by what is in the upper left corner.",
    files=_FILES,
)
def tic_tac_toe_corner(folder: Path | None, *, download: bool, seed: int = 0) -> ImageData:
    """The only symmetry of the labels is the diagonal mirror."""
    boards = torch.randint(3, (_CORNER_BOARDS, 9), generator=torch.Generator().manual_seed(seed))
    return _data("tic-tac-toe-corner", boards, boards[:, 0].clone(), ("empty", "X", "O"), seed)


def _data(name: str, boards: Tensor, labels: Tensor, classes: tuple[str, ...], seed: int) -> ImageData:
    order = torch.randperm(len(boards), generator=torch.Generator().manual_seed(seed))
    images = torch.stack([boards == 1, boards == 2], 1).view(-1, 2, 3, 3).float()[order]
    labels, fifth = labels[order], len(boards) // 5
    train, test = (
        Split(TensorImages(images[part], white=1.0), labels[part], classes)
        for part in (slice(fifth, None), slice(fifth))
    )
    return ImageData(name, train, test, origin="computed")


def _wins(board: list[int], player: int) -> bool:
    return any(all(board[k] == player for k in line) for line in _LINES)


@cache
def _final_boards() -> Tensor:
    """All boards at which a game can end, 1 for X, who begins, and 2 for O."""
    ended: set[tuple[int, ...]] = set()
    seen: set[tuple[int, ...]] = set()

    def play(board: tuple[int, ...], player: int) -> None:
        if board in seen:
            return
        seen.add(board)
        if _wins(list(board), 3 - player) or 0 not in board:
            ended.add(board)
            return
        for k in range(9):
            if board[k] == 0:
                play((*board[:k], player, *board[k + 1 :]), 3 - player)

    play((0,) * 9, 1)
    return torch.tensor(sorted(ended))
