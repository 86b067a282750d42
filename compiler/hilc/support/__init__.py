"""Files, processes, archives and JSON: what has nothing to do with models."""
