"""Memory planning: buffer offsets, their allocator and the checker of finished plans."""
