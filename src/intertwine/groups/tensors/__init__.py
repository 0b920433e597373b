"""Tensors with index symmetries, and their irreps."""
