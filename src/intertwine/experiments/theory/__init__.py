"""The classification of published equivariant networks, and one checked instance of each row."""
