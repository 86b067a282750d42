"""Expected results of a device: from a reference of numerics, or from a file.

What of :mod:`hil.verify.oracle` is for users; the rooms use that.
"""

from __future__ import annotations

from hil.verify.oracle import expected_outputs, reference_of

__all__ = ["expected_outputs", "reference_of"]
