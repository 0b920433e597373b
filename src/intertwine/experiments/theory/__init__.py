"""The classification of published equivariant networks, with a checked instance of each row."""
