"""Sets and graphs of any size."""
