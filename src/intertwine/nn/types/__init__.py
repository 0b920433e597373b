"""Layers without weights that change the field type."""
