"""Keller & Welling, "Topographic VAEs learn equivariant capsules", NeurIPS 2021.

Capsules whose latent variables roll as the data move.
"""
