"""``tomllib`` for every Python that we support; it joined the standard library with 3.11."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
