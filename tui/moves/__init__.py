"""The Moves: runs in progress, their requests, their history."""
