"""What exists only for microTVM: packed functions, metadata, archives."""
