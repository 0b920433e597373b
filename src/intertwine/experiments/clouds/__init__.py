"""Point clouds: charged particles, and energies and forces of molecules."""
