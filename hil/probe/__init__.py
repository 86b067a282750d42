"""Debug probes: which one belongs to a board, who may open it, programming through it."""
