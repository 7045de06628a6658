"""Commands about trimtab on this machine: services, bug reports."""
