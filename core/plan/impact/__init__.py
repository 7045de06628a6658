"""Who a running plan affects: consumer groups and producers."""
