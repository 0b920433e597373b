"""Pictures, tables and pages of what the other rooms compute."""

from ._audit_page import audit_page as audit_page
from ._audit_page import write_audit_page as write_audit_page
from ._audit_table import audit_differences as audit_differences
from ._audit_table import audit_table as audit_table
from ._demo_page import demo_page as demo_page
from ._demo_page import write_demo_page as write_demo_page
from ._experiment_page import RunSummary as RunSummary
from ._experiment_page import experiment_page as experiment_page
from ._experiment_page import write_experiment_page as write_experiment_page
from ._html import Block as Block
from ._html import Column as Column
from ._html import DataTable as DataTable
from ._html import Facts as Facts
from ._html import Gallery as Gallery
from ._html import Heading as Heading
from ._html import Note as Note
from ._html import Picture as Picture
from ._html import Prose as Prose
from ._html import Section as Section
from ._html import TableCell as TableCell
from ._html import page as page
from ._html import write_page as write_page
from ._kernel_plot import kernel_figure as kernel_figure
from ._svg import inline_svg as inline_svg
from ._table import comparison_table as comparison_table
