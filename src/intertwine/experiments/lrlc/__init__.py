"""Elsayed, Ramachandran, Shlens & Kornblith, "Revisiting spatial invariance with low-rank local connectivity" (2020).

A layer between a convolution and a locally connected one, on four data sets and by rank.
"""
