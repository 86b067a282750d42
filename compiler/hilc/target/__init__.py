"""Cores and what code for them looks like."""
