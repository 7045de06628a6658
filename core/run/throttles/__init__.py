"""A run's throttles: desired, written and read back, watched for drift, adapted and restored."""
