"""Do it: carrying a plan out, in a process that needs nobody."""
