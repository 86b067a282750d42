"""Attacks on the product, one module each; ``ci/torture.py`` runs them."""
