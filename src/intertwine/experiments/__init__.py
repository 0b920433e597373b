"""Where models, data, training and measurement meet.

Each paper has a folder, which the registry imports when experiments are first looked up. This is the order of the
sub-packages; each one imports only those before it, and no paper imports another.

    lab       what an experiment is, the registry, engines, sweeps
    classics  LeNet on digits, group convolutions on rotated digits
    lrlc      low-rank local connectivity
    soft      relaxed equivariance with continuous filters
    relu      how ReLU networks encode symmetries, and the propositions about them
    tvae      topographic autoencoders
    clouds    point clouds: charged particles
    theory    the classification of published networks, with a check of each row
    demo      the four verbs on embedded digits
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_face
from .lab import SCALES as SCALES
from .lab import Cell as Cell
from .lab import Comparison as Comparison
from .lab import Experiment as Experiment
from .lab import ExperimentRow as ExperimentRow
from .lab import Figure as Figure
from .lab import FinishedRun as FinishedRun
from .lab import Job as Job
from .lab import JobSpec as JobSpec
from .lab import Metric as Metric
from .lab import Ordering as Ordering
from .lab import Outcome as Outcome
from .lab import Panel as Panel
from .lab import Panels as Panels
from .lab import Parameter as Parameter
from .lab import Plot as Plot
from .lab import Published as Published
from .lab import Run as Run
from .lab import Scale as Scale
from .lab import Series as Series
from .lab import StopRunError as StopRunError
from .lab import Sweep as Sweep
from .lab import Table as Table
from .lab import Verdict as Verdict
from .lab import best as best
from .lab import compare as compare
from .lab import create_study as create_study
from .lab import default_storage as default_storage
from .lab import execute as execute
from .lab import experiment_named as experiment_named
from .lab import experiments as experiments
from .lab import finished_runs as finished_runs
from .lab import jobs_of as jobs_of
from .lab import load_arrays as load_arrays
from .lab import load_study as load_study
from .lab import parse_parameter as parse_parameter
from .lab import run_jobs as run_jobs
from .lab import run_sweep as run_sweep
from .lab import save_arrays as save_arrays
from .lab import welch_confidence as welch_confidence

if TYPE_CHECKING:  # lets type checkers and editors see what __getattr__ provides
    from .demo import Demo as Demo
    from .demo import DemoNetwork as DemoNetwork
    from .demo import TurningDigits as TurningDigits
    from .demo import load_capsules as load_capsules
    from .demo import run_demo as run_demo
    from .demo import save_capsules as save_capsules
    from .demo import save_demo as save_demo
    from .demo import train_capsules as train_capsules
    from .theory import Check as Check
    from .theory import Row as Row
    from .theory import classification as classification

__getattr__, __dir__ = lazy_face(
    __name__,
    {
        "demo": [
            "Demo",
            "DemoNetwork",
            "TurningDigits",
            "load_capsules",
            "run_demo",
            "save_capsules",
            "save_demo",
            "train_capsules",
        ],
        "theory": ["Check", "Row", "classification"],
    },
)
