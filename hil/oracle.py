"""What a device's results are compared with: a reference of numerics, or outputs from a file.

What of :mod:`hil.verify.oracle` is for users; the rooms use that.
"""

from __future__ import annotations

from hil.verify.oracle import expected_outputs, reference_of

__all__ = ["expected_outputs", "reference_of"]
