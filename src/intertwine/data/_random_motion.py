"""Augmentation by random group elements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .._checked import checked, describe
from ..errors import InputError
from ..groups import Element, FiniteGroup
from ..spaces import Border, FieldAction, FieldType, Space


@checked
@dataclass(frozen=True)
class RandomMotion:
    """Moves data by uniformly random elements of a group, drawn independently for each item of a batch.

    The symmetry is what :mod:`intertwine.measure` and the layers take: a name, a space with its group, or a field type,
    which also moves the channels. Elements that map the pixel grid to itself are exact; others interpolate.

    Args:
        symmetry: such as ``"hflip"``, ``"D4"``, ``Grid2d("SO(2)")``, ``Grid1d("D1")`` or
            ``Grid2d("D4").field("irrep1")``.
        padding: what lies outside an image, for elements that interpolate.

    >>> augment = RandomMotion("D4")
    >>> images = torch.rand(6, 3, 8, 8)
    >>> augment(images, torch.Generator().manual_seed(0)).shape
    torch.Size([6, 3, 8, 8])
    """

    symmetry: str | Space | FieldType
    padding: Border = "zeros"

    def __post_init__(self) -> None:
        self._action  # report a wrong name right away  # noqa: B018

    @cached_property
    def _action(self) -> FieldAction:
        return FieldAction.of(self.symmetry, padding=self.padding)

    @checked
    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Move one item ``(channels, ...)``, or each item of a batch."""
        rank = self._action.rank
        typed = self._action.type is not None  # then real matrices act on the channels
        if images.ndim not in (rank - 1, rank) or images.is_complex() or (typed and not images.is_floating_point()):
            numbers = "floating point numbers" if typed else "real numbers"
            raise InputError(
                "RandomMotion",
                expected=f"{numbers} with {rank - 1} axes, or a batch of them with {rank}",
                got=describe(images),
            )
        batch = images if images.ndim == rank else images[None]
        if not len(batch):
            return images
        return self._moved(batch, self._action.space.sample(len(batch), generator)).reshape(images.shape)

    def _moved(self, batch: Tensor, elements: list[Element]) -> Tensor:
        if isinstance(self._action.group, FiniteGroup):
            if len(set(elements)) == 1:  # also the usual case of augmentation, one image at a time
                return self._checked_shape(self._action.move(elements[0], batch), batch)
            out = torch.empty_like(batch)
            drawn = torch.tensor(elements, device="cpu")  # the CPU, even if another default device is set
            for g in drawn.unique().tolist():
                out[drawn == g] = self._checked_shape(self._action.move(g, batch[drawn == g]), batch)
            return out
        return torch.stack([self._action.move(g, item) for g, item in zip(elements, batch, strict=True)])

    def _checked_shape(self, moved: Tensor, batch: Tensor) -> Tensor:
        if moved.shape[1:] != batch.shape[1:]:
            raise InputError(
                "RandomMotion",
                expected=f"square images, which {self._action.group.name} maps to themselves",
                got=" x ".join(map(str, batch.shape[2:])),
                fix="Resize or crop them to a square first.",
            )
        return moved
