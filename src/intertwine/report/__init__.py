"""Pictures, tables and pages for the results of other rooms.

The files at the top are the parts of tables and pages. The sub-packages come in this order, and each imports only those
before it.

    draw        figures as pictures: plots, panels of images, bases of kernels
    experiment  published numbers next to ours, in the terminal and as a page
    audit       an audit, in the terminal and as a page
    discovery   what was discovered about data, in the terminal and as a page
    explore     the server, the workers and the pages of ``intertwine explore``
    demo        the page of ``intertwine demo``
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_face
from ._html import Block as Block
from ._html import Code as Code
from ._html import Column as Column
from ._html import DataTable as DataTable
from ._html import Facts as Facts
from ._html import Gallery as Gallery
from ._html import Heading as Heading
from ._html import LayerPicker as LayerPicker
from ._html import Note as Note
from ._html import Picture as Picture
from ._html import Prose as Prose
from ._html import Section as Section
from ._html import TableCell as TableCell
from ._html import page as page
from ._html import write_page as write_page

if TYPE_CHECKING:  # lets type checkers and editors see what __getattr__ provides
    from .audit._page import audit_page as audit_page
    from .audit._page import audit_summary as audit_summary
    from .audit._page import write_audit_page as write_audit_page
    from .audit._table import audit_differences as audit_differences
    from .audit._table import audit_table as audit_table
    from .audit._table import audit_text as audit_text
    from .demo._page import demo_page as demo_page
    from .demo._page import write_demo_page as write_demo_page
    from .discovery._page import discovery_page as discovery_page
    from .discovery._page import discovery_summary as discovery_summary
    from .discovery._page import write_discovery_page as write_discovery_page
    from .discovery._table import discovery_table as discovery_table
    from .discovery._table import discovery_text as discovery_text
    from .draw._kernel_figure import kernel_figure as kernel_figure
    from .draw._svg import inline_svg as inline_svg
    from .experiment._markdown import with_plots as with_plots
    from .experiment._markdown import with_tables as with_tables
    from .experiment._page import experiment_page as experiment_page
    from .experiment._page import write_experiment_page as write_experiment_page
    from .experiment._run_summary import RunSummary as RunSummary
    from .experiment._table import comparison_table as comparison_table
    from .explore._server import Explorer as Explorer

__getattr__, __dir__ = lazy_face(
    __name__,
    {
        "audit._page": ["audit_page", "audit_summary", "write_audit_page"],
        "audit._table": ["audit_differences", "audit_table", "audit_text"],
        "demo._page": ["demo_page", "write_demo_page"],
        "discovery._page": ["discovery_page", "discovery_summary", "write_discovery_page"],
        "discovery._table": ["discovery_table", "discovery_text"],
        "draw._kernel_figure": ["kernel_figure"],
        "draw._svg": ["inline_svg"],
        "experiment._markdown": ["with_plots", "with_tables"],
        "experiment._page": ["experiment_page", "write_experiment_page"],
        "experiment._run_summary": ["RunSummary"],
        "experiment._table": ["comparison_table"],
        "explore._server": ["Explorer"],
    },
)
