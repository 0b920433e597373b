"""Constant tables, and the invariant and intertwining maps that the layers are built from."""
