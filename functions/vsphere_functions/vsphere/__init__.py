"""The vSphere gateway: the only place that knows pyVmomi."""
