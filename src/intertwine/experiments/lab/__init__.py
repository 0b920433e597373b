"""Tools for all experiments: definitions, the registry, engines, sweeps, and comparison with published numbers."""
