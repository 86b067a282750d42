"""Arrays of numbers from what a caller hands over."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hilc.errors import InputError


def numbers(what: str, value: npt.ArrayLike, wanted: str) -> npt.NDArray[Any]:
    """Return ``value`` as an array of numbers; raise InputError if it is not numeric.

    ``what`` is given the value, and ``wanted`` is its type and shape, for messages.
    """
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        array = np.asarray(None)
    if array.dtype.kind not in "biufc":
        raise InputError(
            f"{what} was given a {type(value).__name__} that is no array of numbers",
            f"give an array of {wanted}",
        )
    return array
