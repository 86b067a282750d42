"""Compatibility with other compilers."""
