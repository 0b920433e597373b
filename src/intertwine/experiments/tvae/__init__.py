"""Keller & Welling, "Topographic VAEs learn equivariant capsules", NeurIPS 2021.

Capsules whose latent variables roll when the data move.
"""
