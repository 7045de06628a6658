"""What is it now? The cluster as it stands, and the only ways to change it."""
