"""Debug probes: selection for a board, permissions, programming."""
