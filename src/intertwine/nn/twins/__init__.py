"""From a symmetrized plain network to the typed network that computes the same function."""

from ._typed import typed as typed
