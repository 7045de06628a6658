"""What all screens share: header, footer, keys, filter, help and the command palette."""
