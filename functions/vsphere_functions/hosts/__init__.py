"""The two ends a request comes in by: NATS JetStream and HTTP."""
