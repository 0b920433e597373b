"""Low-rank locally connected layers and their baselines (Elsayed et al. 2020)."""
