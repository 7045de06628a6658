"""What is made of trimtab for others to install: `make dist`."""
