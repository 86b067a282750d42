"""Compatibility with microTVM: packed functions, metadata, archives."""
