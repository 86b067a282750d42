"""Attacks on the product, one module each; ``python tools/measure.py torture`` runs them."""
