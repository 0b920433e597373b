"""van der Ouderaa, Romero & van der Wilk, "Relaxing equivariance constraints with non-stationary continuous filters".

In this paper (2022) every layer can break its symmetry, by an amount that is fixed or learned.
"""
