"""Relaxed versions of any strict convolution, and ``relax``, which relaxes a whole network."""
