"""Two classics on digits: what convolution gains, and what commuting with quarter turns gains."""

from ._lenet import EXPERIMENT as LENET
from ._rotated_mnist import EXPERIMENT as ROTATED_MNIST

EXPERIMENTS = (LENET, ROTATED_MNIST)
