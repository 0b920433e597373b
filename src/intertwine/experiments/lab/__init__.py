"""What an experiment is, the list of all, engines that run jobs, sweeps, and comparisons with published numbers."""
