"""Small clients that measure what a cluster's own clients feel."""
