"""Keller & Welling, "Topographic VAEs learn equivariant capsules", NeurIPS 2021.

Capsules whose latent variables roll when the data move.
"""

from ._mnist import EXPERIMENT as MNIST
from ._sprites import EXPERIMENT as SPRITES
from ._torus import EXPERIMENT as TORUS

EXPERIMENTS = (MNIST, SPRITES, TORUS)
