"""Finite groups by their Cayley tables: subgroups, irreps, products and named groups."""
