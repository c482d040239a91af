"""The contract of vsphere-functions: events, models, codes. No I/O."""
