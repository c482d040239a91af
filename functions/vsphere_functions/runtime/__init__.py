"""What every host shares: catalogue, drive, dispatch, delivery, operations, settings."""
