"""Who notices that a plan is carried out: consumer groups and producers."""
