"""What a cluster holds that no run in progress owns: others' moves and throttles, leftovers."""
