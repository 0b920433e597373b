"""Elsayed, Ramachandran, Shlens & Kornblith, "Revisiting spatial invariance with low-rank local connectivity" (2020).

A layer between a convolution and a locally connected layer, on four data sets and for a range of ranks.
"""

from ._celeba import EXPERIMENT as CELEBA
from ._cifar10 import EXPERIMENT as CIFAR10
from ._imagenet import EXPERIMENT as IMAGENET
from ._mnist import EXPERIMENT as MNIST
from ._rank import EXPERIMENT as RANK

EXPERIMENTS = (CELEBA, CIFAR10, IMAGENET, MNIST, RANK)
