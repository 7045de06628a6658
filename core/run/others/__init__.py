"""What a cluster holds beside our runs: every throttle explained, moves of others."""
