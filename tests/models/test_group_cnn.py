"""Classifiers with a symmetry built in, and their plain twin."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError
from intertwine.groups import Cyclic, Dihedral
from intertwine.models import GroupCNN, plain_cnn


def test_the_answer_does_not_change_under_the_group():
    torch.manual_seed(0)
    x = torch.rand(3, 1, 28, 28, dtype=torch.float64)
    mirrored, turned = x.flip(-1), x.rot90(1, (-2, -1))
    for group, moved in ((Cyclic(4), turned), (Dihedral(4), turned), (Dihedral(4), mirrored), (Cyclic(8), turned)):
        net = GroupCNN(group, 1, 10, widths=(2, 3, 4)).double().eval()
        with torch.no_grad():
            assert (net(moved) - net(x)).abs().max() < 1e-12


def test_a_plain_one_and_a_smaller_group_do_change():
    x = torch.rand(3, 1, 28, 28)
    with torch.no_grad():
        for net, moved in ((plain_cnn(1, 10), x.rot90(1, (-2, -1))), (GroupCNN(Cyclic(4), 1, 10), x.flip(-1))):
            net.eval()
            assert (net(moved) - net(x)).abs().max() > 1e-4


def test_bad_widths_are_explained():
    with pytest.raises(InputError, match=r"one positive width per block; got \[\]"):
        plain_cnn(1, 10, widths=[])
    with pytest.raises(InputError, match="one positive width"):
        GroupCNN(Cyclic(4), 1, 10, widths=(2, 0))
