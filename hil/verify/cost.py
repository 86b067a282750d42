"""What the inferences of a verification cost, beside their results."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hil.device import Model
from hilc.support.counters import Counter


@dataclass(frozen=True)
class Cost:
    """Count of an inference, and the sizes of the firmware that ran it.

    It is what the runs of a comparison took anyway: with the inputs of each sample and caches as
    they were. :func:`hil.bench` measures with warm caches and the same inputs.
    """

    counter: Counter
    #: Median over the samples.
    per_inference: int
    #: Flash that the model adds, all static RAM, and the model's part of it; None for a firmware
    #: that was not built here.
    model_flash_bytes: int | None
    ram_bytes: int | None
    workspace_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return the attributes as a JSON object."""
        return asdict(self)


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
