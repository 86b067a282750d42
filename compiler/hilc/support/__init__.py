"""Helpers independent of models: files, processes, archives and JSON."""
