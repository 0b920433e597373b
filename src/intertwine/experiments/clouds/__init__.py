"""Point clouds: charged particles."""
