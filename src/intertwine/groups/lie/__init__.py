"""Lie groups: rotations and reflections of the plane and of space, and motions of Euclidean space."""
