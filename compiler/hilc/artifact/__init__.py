"""A compiled model as files: its library, the manifest, archives."""
