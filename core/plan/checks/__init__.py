"""Checks: what speaks against a plan, or against dropping one replica on a broker."""
