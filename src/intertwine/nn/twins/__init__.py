"""From a symmetrized plain network to the typed network that computes the same function."""
