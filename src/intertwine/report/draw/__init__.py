"""Figures as pictures: plots, panels of images, bases of kernels."""

from ._kernel_figure import kernel_figure as kernel_figure
from ._svg import inline_svg as inline_svg
