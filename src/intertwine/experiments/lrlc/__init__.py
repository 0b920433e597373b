"""Elsayed, Ramachandran, Shlens & Kornblith, "Revisiting spatial invariance with low-rank local connectivity" (2020).

A layer between a convolution and a locally connected layer, on four data sets and for a range of ranks.
"""
