"""Estimates: how long a plan takes at a rate, and which rate a deadline needs."""
