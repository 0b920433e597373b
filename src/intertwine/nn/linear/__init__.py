"""Linear layers with weights: convolutions on grids and spheres, linear maps at each point and between cosets."""
