"""Machine functions, one file each."""
