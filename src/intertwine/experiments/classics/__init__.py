"""Two classics on digits: the gain from convolution, and the gain from equivariance to quarter turns."""

from ._lenet import EXPERIMENT as LENET
from ._rotated_mnist import EXPERIMENT as ROTATED_MNIST

EXPERIMENTS = (LENET, ROTATED_MNIST)
