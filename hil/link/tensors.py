"""References to tensors in requests to the board."""

from __future__ import annotations

from dataclasses import dataclass

from hil.link.protocol import Tensors


@dataclass(frozen=True)
class TensorRef:
    """Identifies a tensor of the board."""

    model: int
    list: Tensors
    index: int
    layer: int = 0

    @property
    def fields(self) -> dict[str, int]:
        """The fields of a request that name the tensor."""
        return {
            "model": self.model,
            "list": self.list,
            "layer": self.layer,
            "index": self.index,
        }
