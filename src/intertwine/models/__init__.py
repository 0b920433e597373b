"""Whole networks, built from layers."""

from ._classic import LeNet5 as LeNet5
from ._classic import linear_classifier as linear_classifier
from ._classic import multilayer_perceptron as multilayer_perceptron
from ._group_cnn import GroupCNN as GroupCNN
from ._group_cnn import plain_cnn as plain_cnn
from ._simple_net import SimpleNet as SimpleNet
from ._soft_resnet import SOFT_RESNETS as SOFT_RESNETS
from ._soft_resnet import SoftResNet as SoftResNet
