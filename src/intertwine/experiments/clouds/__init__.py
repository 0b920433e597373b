"""Point clouds: charged particles."""

from ._nbody import EXPERIMENT as NBODY

EXPERIMENTS = (NBODY,)
