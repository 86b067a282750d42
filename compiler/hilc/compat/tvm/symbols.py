"""The names by which TVM's run times look for what a module brings."""

from __future__ import annotations

#: Function that finds a linked constant by its storage id, and that which returns the metadata.
LOOKUP = "_lookup_linked_param"
GET_METADATA = "get_c_metadata"


def get_metadata(symbol: str) -> str:
    """The module's own function that returns the metadata; ``symbol`` begins its names."""
    return f"{symbol}_{GET_METADATA}"


def lookup(symbol: str) -> str:
    """The module's own function that finds constants."""
    return f"{symbol}_{LOOKUP}"
