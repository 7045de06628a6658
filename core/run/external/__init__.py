"""What no run in progress owns in a cluster: others' moves and throttles, leftovers."""
