"""Bökman & Kahl, "Investigating how ReLU-networks encode symmetries", NeurIPS 2023.

How far networks that were trained on mirrored images are from group-convolutional ones.
"""

from ._imagenet import EXPERIMENT as IMAGENET
from ._pairs import EXPERIMENT as PAIRS
from ._symmetry import EXPERIMENT as SYMMETRY

EXPERIMENTS = (IMAGENET, PAIRS, SYMMETRY)
