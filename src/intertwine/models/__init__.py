"""Whole networks, built from layers."""

from ._classic import LeNet5 as LeNet5
from ._classic import linear_classifier as linear_classifier
from ._classic import multilayer_perceptron as multilayer_perceptron
from ._group_cnn import GroupCNN as GroupCNN
from ._group_cnn import plain_cnn as plain_cnn
