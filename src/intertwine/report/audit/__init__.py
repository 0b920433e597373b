"""An audit, for the terminal and as a page."""

from ._page import audit_page as audit_page
from ._page import write_audit_page as write_audit_page
from ._table import audit_differences as audit_differences
from ._table import audit_table as audit_table
from ._table import audit_text as audit_text
