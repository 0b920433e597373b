"""Pictures and tables of what the other rooms compute."""

from ._kernel_plot import kernel_figure as kernel_figure
