"""Names by which TVM's runtimes look up functions of a module."""

from __future__ import annotations

#: Functions that find a linked constant by its storage id, and that return the metadata.
LOOKUP = "_lookup_linked_param"
GET_METADATA = "get_c_metadata"


def get_metadata(symbol: str) -> str:
    """Return the name of the module's own function that returns the metadata; ``symbol`` begins
    it.
    """
    return f"{symbol}_{GET_METADATA}"


def lookup(symbol: str) -> str:
    """Return the name of the module's own function that finds constants."""
    return f"{symbol}_{LOOKUP}"
