"""Layers made of layers: sequences, branches, blocks, and wrappers around plain modules."""
