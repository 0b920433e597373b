"""The demo: five verbs on embedded digits, in minutes and without downloads.

Discover which symmetry digits have, impose it, relax it, learn it from sequences, and measure it in trained networks.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:  # lets type checkers and editors see what __getattr__ provides
    from ._demo import Demo as Demo
    from ._demo import run_demo as run_demo
    from ._demo import save_demo as save_demo
    from ._learn import TurningDigits as TurningDigits
    from ._learn import load_capsules as load_capsules
    from ._learn import save_capsules as save_capsules
    from ._learn import train_capsules as train_capsules
    from ._scores import Scores as Scores

__getattr__, __dir__ = lazy_face(
    __name__,
    {
        "_demo": ["Demo", "run_demo", "save_demo"],
        "_learn": ["TurningDigits", "load_capsules", "save_capsules", "train_capsules"],
        "_scores": ["Scores"],
    },
)
