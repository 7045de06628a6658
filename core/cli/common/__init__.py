"""What commands share: the target cluster, options, output, prompts, signals, times."""
