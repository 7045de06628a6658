"""The cluster document that `show --json` writes and `--from` reads, as JSON or Arrow."""
