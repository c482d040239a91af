"""Functions about requests themselves, one file each."""
