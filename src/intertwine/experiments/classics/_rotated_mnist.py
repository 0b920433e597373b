"""Cohen & Welling, "Group equivariant convolutional networks", ICML 2016: digits rotated by random angles.

Compares a network that is equivariant to quarter turns with a plain one that has as many weights. The published errors
are from the paper's table, for its Z2CNN and P4CNN with seven layers of 3 x 3 filters on the 12,000 training images of
rotated MNIST. Our networks have three layers and about 29,000 weights per row (25,000 in the paper), our images are
MNIST rotated by other random angles, and the other rows go beyond the paper: C8, D4, and the field types of other
published networks on the plane.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from ...groups import parse_finite
from ...models import GroupCNN, plain_cnn
from ..lab._classifier import PARAMETERS, TEST_ERROR, train_classifier
from ..lab._experiment import Experiment, ExperimentRow, Job, Ordering, Published
from ._plane_types import plane_network


def run(job: Job) -> Mapping[str, float]:
    """Train one network and measure its error on the test images."""
    group, widths = job.settings["group"], job.settings["widths"]

    def build(shape: tuple[int, int, int], classes: int) -> nn.Module:
        if group is None:
            return plain_cnn(shape[0], classes, widths=widths)
        if "fields" in job.settings:
            return plane_network(job.settings["fields"], shape[0], classes, widths=widths)
        return GroupCNN(parse_finite(group), shape[0], classes, widths=widths)

    return train_classifier(job, build)


EXPERIMENT = Experiment(
    name="rotated-mnist",
    title="Digits at any angle: the gain from symmetry at equal size",
    reference="Cohen & Welling 2016, table of rotated MNIST",
    metrics=(TEST_ERROR, PARAMETERS),
    rows=(
        ExperimentRow("plain", "plain CNN", {"group": None, "widths": [16, 24, 32]}, {"test_error": Published(5.03)}),
        ExperimentRow(
            "c4", "C4, quarter turns", {"group": "C4", "widths": [8, 12, 16]}, {"test_error": Published(2.28)}
        ),
        ExperimentRow("d4", "D4, with mirrors", {"group": "D4", "widths": [6, 8, 12]}, {}),
        ExperimentRow("c8", "C8, eighth turns", {"group": "C8", "widths": [8, 13, 17]}, {}),
        *(
            ExperimentRow(name, title, {"group": name, "fields": name, "widths": widths})
            for name, title, widths in (
                ("c4-types", "C4, regular fields, vectors and signs (Cohen & Welling 2017)", [4, 6, 7]),
                ("c6-hexagonal", "C6 on the hexagonal lattice (Hoogeboom et al. 2018)", [7, 11, 14]),
                ("c8-free", "C8, free filters (Zhou et al. 2017; Bekkers et al. 2018)", [6, 9, 12]),
                ("c8-vectors", "C8, orientation pooling (Marcos et al. 2017)", [16, 25, 34]),
                ("so2", "SO(2), frequencies 0 to 2 (Worrall et al. 2017)", [8, 14, 18]),
                ("o2", "O(2), frequencies 0 to 2 (Weiler & Cesa 2019)", [12, 19, 25]),
            )
        ),
    ),
    scales={
        "smoke": {"data": "digits", "images": 500, "epochs": 3, "batch_size": 50, "lr": 1e-2},
        "small": {"data": "rotated-mnist", "images": 12_000, "epochs": 4, "batch_size": 64, "lr": 5e-3},
        "paper": {"data": "rotated-mnist", "images": None, "epochs": 40, "batch_size": 64, "lr": 5e-3},
    },
    seeds={"smoke": 1, "small": 3, "paper": 5},
    orderings=(Ordering("c4", "plain", "test_error"),),
    run=run,
    data={"smoke": "digits", "small": "rotated-mnist", "paper": "rotated-mnist"},
    watch="val_error",
)
