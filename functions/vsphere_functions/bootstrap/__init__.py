"""Bootstrap data for guests: pure, bytes in, bytes out."""
