"""The page of ``intertwine demo``."""
