"""Volume functions, one file each."""
