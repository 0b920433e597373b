"""van der Ouderaa, Romero & van der Wilk, "Relaxing equivariance constraints with non-stationary continuous filters".

In this paper (2022) every layer can break its symmetry, by an amount that is fixed or learned.
"""

from ._augmented import EXPERIMENT as AUGMENTED
from ._cifar10 import EXPERIMENT as CIFAR10
from ._cifar100 import EXPERIMENT as CIFAR100
from ._frequency import EXPERIMENT as FREQUENCY
from ._mnist6 import EXPERIMENT as MNIST6
from ._rotmnist import EXPERIMENT as ROTMNIST
from ._samples import EXPERIMENT as SAMPLES

EXPERIMENTS = (AUGMENTED, CIFAR10, CIFAR100, FREQUENCY, MNIST6, ROTMNIST, SAMPLES)
