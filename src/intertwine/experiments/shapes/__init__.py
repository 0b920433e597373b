"""Shapes in 3-space, as voxels and as points, at any orientation."""
