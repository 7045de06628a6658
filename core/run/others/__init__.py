"""What a cluster holds beside our runs: throttles explained, lists as they are, others' moves."""
