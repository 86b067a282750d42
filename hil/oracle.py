"""Expected results of a device: from a reference of numerics, or from a file.

Public names of :mod:`hil.verify.oracle`.
"""

from __future__ import annotations

from hil.verify.oracle import expected_outputs, reference_of

__all__ = ["expected_outputs", "reference_of"]
