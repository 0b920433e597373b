"""Published numbers against ours, for the terminal and as a page."""

from ._page import experiment_page as experiment_page
from ._page import write_experiment_page as write_experiment_page
from ._run_summary import RunSummary as RunSummary
from ._table import comparison_table as comparison_table
