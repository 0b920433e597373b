"""Digits transformed over time: rotated, scaled, colored, seen in perspective.

Angles and hues go once around in equal steps, scales go from 0.60 to 1.26. Each sequence starts at a random step of
each. As in Keller and Welling, "Topographic VAEs learn equivariant capsules" (2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .._checked import Positive, checked
from ..errors import InputError
from ..spaces import resample

KINDS = ("rotation", "scale", "hue")
Mode = Literal["single", "dual", "perspective"]


@checked
@dataclass(frozen=True)
class DigitMotion:
    """Turns a gray image into a colored sequence.

    In mode ``single``, one of rotation, scale and hue, drawn at random, changes, and the other two stay at a random
    value. In mode ``dual``, rotation and hue change together. In mode ``perspective``, a rotation about two axes in
    space and the hue change together.

    Labels are ``(time, 4)``: what changes (0 rotation, 1 scale, 2 hue, 3 several), and the steps of the three.

    Args:
        frames: the number of frames in a sequence.
        mode: what changes.
        color: whether digits have a hue, which can change. Otherwise they stay as they are, and may have several
            channels, which move alike.

    >>> frames, labels = DigitMotion(frames=6)(torch.rand(1, 28, 28), torch.Generator().manual_seed(0))
    >>> frames.shape, labels.shape
    (torch.Size([6, 3, 28, 28]), torch.Size([6, 4]))
    """

    frames: Positive = 18
    mode: Mode = "single"
    color: bool = True

    def __call__(self, image: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        if image.ndim != 3 or (self.color and image.shape[0] != 1):
            gray = "a gray image (1, height, width)" if self.color else "an image (channels, height, width)"
            raise InputError("DigitMotion", expected=gray, got=f"shape {tuple(image.shape)}")
        starts = torch.randint(self.frames, (3,), generator=generator)
        kinds = KINDS if self.color else KINDS[:2]
        moving = int(torch.randint(len(kinds), (), generator=generator)) if self.mode == "single" else len(KINDS)
        steps = starts.repeat(self.frames, 1)
        for column in (moving,) if self.mode == "single" else (0, 2):
            steps[:, column] = (starts[column] + torch.arange(self.frames)) % self.frames
        angles = 2 * math.pi * steps[:, 0] / self.frames
        scales = 0.60 + (1.26 - 0.60) * steps[:, 1] / max(self.frames - 1, 1)
        if self.mode != "single":
            scales = torch.ones_like(scales)
        inverse = _perspective(angles, image.shape) if self.mode == "perspective" else _turned(angles, scales)
        frames = _warped(image, inverse)
        if self.color:
            frames = _colored(frames, 2 * math.pi * steps[:, 2] / self.frames - math.pi)
        return frames, torch.cat([torch.full((self.frames, 1), moving), steps], 1)


def _turned(angles: Tensor, scales: Tensor) -> Tensor:
    """Maps ``(n, 3, 3)`` from positions in the frame to positions in the image, both relative to the center.

    A positive angle rotates the digit counterclockwise, and a scale above 1 enlarges it.
    """
    out = torch.zeros(len(angles), 3, 3)
    cos, sin = torch.cos(angles) / scales, torch.sin(angles) / scales
    # x points right and y down, so this is counterclockwise on the screen
    out[:, 0, 0], out[:, 0, 1], out[:, 1, 0], out[:, 1, 1] = cos, -sin, sin, cos
    out[:, 2, 2] = 1
    return out


def _perspective(angles: Tensor, shape: torch.Size) -> Tensor:
    """Maps ``(n, 3, 3)`` for a rotation by the angle about the vertical axis and the line of sight, in perspective.

    The distance is half the image's diagonal over the sine of the angle. At a half turn, where the image would be seen
    edge-on, the angle is one degree more.
    """
    _, height, width = shape
    diagonal = math.hypot(height, width)
    out = torch.zeros(len(angles), 3, 3, dtype=torch.float64)
    for k, angle in enumerate(angles.double().tolist()):
        if angle == 0:
            out[k] = torch.eye(3, dtype=torch.float64)
            continue
        angle = math.radians(181) if abs(angle - math.pi) < 1e-6 else angle
        sine, cos = math.sin(angle), math.cos(angle)
        focal = diagonal / (2 * sine)
        about_y = torch.tensor([[cos, 0, -sine], [0, 1, 0], [sine, 0, cos]], dtype=torch.float64)
        about_z = torch.tensor([[cos, -sine, 0], [sine, cos, 0], [0, 0, 1]], dtype=torch.float64)
        pose = about_y @ about_z  # acts on (x, y, 1): the image is one unit in front of the axes
        pose[2, 2] += focal  # moves it away from the eye
        project = torch.diag(torch.tensor([focal, focal, 1.0], dtype=torch.float64))
        out[k] = torch.linalg.inv(project @ pose)
    return out.float()


def _warped(image: Tensor, inverse: Tensor) -> Tensor:
    """Frames ``(n, channels, height, width)`` by bilinear interpolation, black outside the image."""
    _, height, width = image.shape
    y, x = torch.meshgrid(torch.arange(height) - (height - 1) / 2, torch.arange(width) - (width - 1) / 2, indexing="ij")
    positions = torch.stack([x, y, torch.ones_like(x)], -1).reshape(-1, 3)
    source = positions @ inverse.transpose(1, 2)  # (n, pixels, 3)
    depth = source[..., 2:]
    ahead = depth.abs() > 1e-9
    flat = source[..., :2] / torch.where(ahead, depth, 1.0)
    beyond = torch.tensor(2.0 * max(height, width))  # far enough outside to be black
    x, y = torch.where(ahead, flat, beyond).unbind(-1)
    index = torch.stack([y + (height - 1) / 2, x + (width - 1) / 2], -1).view(len(inverse), height, width, 2)
    return resample(image.expand(len(inverse), -1, -1, -1), index, border="zeros", interpolation="linear")


def _colored(frames: Tensor, hue: Tensor) -> Tensor:
    """Frames ``(n, 3, height, width)`` in a pure color, with the gray level as its value. Hue 0 is red."""
    sixth = (hue % (2 * math.pi)) / (math.pi / 3)
    weights = torch.stack([(((sixth + shift) % 6 - 3).abs() - 1).clamp(0, 1) for shift in (0.0, 4.0, 2.0)], 1)
    return frames * weights[:, :, None, None]
