<<<<<<< HEAD
"""What an experiment is, the list of all, engines that run jobs, sweeps, and comparisons with published numbers."""
=======
"""Tools for all experiments: definitions, the registry, engines, sweeps, and comparison with published numbers."""
>>>>>>> docs
