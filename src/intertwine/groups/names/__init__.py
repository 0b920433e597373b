"""Groups, representations and subgroups by name."""
