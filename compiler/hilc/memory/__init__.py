"""Where every byte of a program lies: the planner, its allocator and the checker of its plans."""
