"""Continuous filters that depend on position, and partial group convolutions (van der Ouderaa et al. 2022)."""
