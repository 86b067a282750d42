"""What the inferences of a verification cost, beside their results."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from hil.device import Model
from hil.results.verify import Cost


def cost_of(model: object, counts: Sequence[int]) -> Cost | None:
    """Return the cost of the counted runs of a model; None for one that is not on a board."""
    if not isinstance(model, Model) or not counts:
        return None
    firmware = model.device.firmware
    sizes = firmware.sizes if firmware else None
    return Cost(
        model.device.counter,
        statistics.median_low(counts),
        sizes.models[model.name].flash_bytes if sizes else None,
        sizes.ram_bytes if sizes else None,
        model.module.workspace_bytes,
    )


def undisturbed_count(model: object, requests: int, result: object) -> int | None:
    """Return the count of a run; None where a request was repeated since there were ``requests``,
    which is counted too, and for a model that is not on a board.
    """
    if not isinstance(model, Model) or model.device.repeated_requests != requests:
        return None
    count = getattr(result, "count", None)
    return count if isinstance(count, int) else None


def repeated_requests(model: object) -> int:
    """Return the number of requests that were repeated so far."""
    return model.device.repeated_requests if isinstance(model, Model) else 0
