"""The laboratory: what an experiment is, the list of all, where jobs run, sweeps, and published against ours."""
