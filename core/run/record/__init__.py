"""What a run wrote down, and all that it knows of itself: the journal and its fold."""
