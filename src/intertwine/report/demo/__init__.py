"""The page of ``intertwine demo``."""

from ._page import demo_page as demo_page
from ._page import write_demo_page as write_demo_page
