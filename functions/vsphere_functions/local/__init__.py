"""The embedded stack: a NATS server and a simulated vCenter on loopback."""
