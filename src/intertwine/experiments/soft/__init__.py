"""van der Ouderaa, Romero & van der Wilk, "Relaxing equivariance constraints with non-stationary continuous filters".

The paper (2022) lets every layer leave its symmetry, by an amount that is fixed or learned.
"""
