"""The built-in export formats, one module each; importing one registers it."""
