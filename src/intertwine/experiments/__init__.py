"""Experiments: models, data, training and measurement together.

Each paper has a folder, which the registry imports when you first look up an experiment. The sub-packages come in this
order, and each imports only those before it. No paper imports another.

    lab       what an experiment is, the registry, engines, sweeps
    classics  LeNet on digits, group convolutions on rotated digits
    lrlc      low-rank local connectivity
    soft      relaxed equivariance with continuous filters
    relu      how ReLU networks encode symmetries, and the propositions about them
    tvae      topographic autoencoders
    clouds    point clouds: charged particles
    sphere    digits on the sphere
    shapes    shapes in 3-space, as voxels and as points
    theory    the classification of published networks, with a check of each row
"""

from typing import TYPE_CHECKING

from .._figures import Figure as Figure
from .._figures import Panel as Panel
from .._figures import Panels as Panels
from .._figures import Plot as Plot
from .._figures import Series as Series
from .._figures import Table as Table
from .._lazy import lazy_face
from .lab._arrays import load_arrays as load_arrays
from .lab._arrays import save_arrays as save_arrays
from .lab._compare import Cell as Cell
from .lab._compare import Comparison as Comparison
from .lab._compare import Verdict as Verdict
from .lab._compare import compare as compare
from .lab._compare import welch_confidence as welch_confidence
from .lab._database import default_storage as default_storage
from .lab._engines import run_jobs as run_jobs
from .lab._experiment import SCALES as SCALES
from .lab._experiment import Experiment as Experiment
from .lab._experiment import ExperimentRow as ExperimentRow
from .lab._experiment import FinishedRun as FinishedRun
from .lab._experiment import Job as Job
from .lab._experiment import Metric as Metric
from .lab._experiment import Ordering as Ordering
from .lab._experiment import Published as Published
from .lab._experiment import Scale as Scale
from .lab._kept_results import keep_results as keep_results
from .lab._kept_results import kept_runs as kept_runs
from .lab._kept_results import kept_scales as kept_scales
from .lab._parameter import Parameter as Parameter
from .lab._parameter import parse_parameter as parse_parameter
from .lab._registry import experiment_named as experiment_named
from .lab._registry import experiments as experiments
from .lab._runner import JobSpec as JobSpec
from .lab._runner import Outcome as Outcome
from .lab._runner import Run as Run
from .lab._runner import StopRunError as StopRunError
from .lab._runner import execute as execute
from .lab._runner import finished_runs as finished_runs
from .lab._runner import jobs_of as jobs_of
from .lab._sweep import Sweep as Sweep
from .lab._sweep import best as best
from .lab._sweep import create_study as create_study
from .lab._sweep import load_study as load_study
from .lab._sweep import run_sweep as run_sweep

if TYPE_CHECKING:  # lets type checkers and editors see what __getattr__ provides
    from .theory._table import Check as Check
    from .theory._table import Row as Row
    from .theory._table import classification as classification

__getattr__, __dir__ = lazy_face(
    __name__,
    {
        "theory._table": ["Check", "Row", "classification"],
    },
)
