"""Results as pictures and as one HTML page that needs no network.

Everything that models, boards and stored results bring is untrusted: the template escapes it, and
the page forbids scripts.
"""
