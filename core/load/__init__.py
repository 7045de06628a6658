"""What does it carry? Samples of load, and the snapshots made of them."""
