"""Interface for calling an image's functions by name over the link."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from hil.link.client import Client
from hil.support.parts import TVM
from hilc.plugins import Slot


class BoardCalls(ABC):
    """Calls of functions in firmware by their name."""

    @abstractmethod
    def functions(self, client: Client) -> tuple[str, ...]:
        """Return the names of the functions in the order of the image's table."""

    @abstractmethod
    def check(self, name: str, arguments: Sequence[Any]) -> None:
        """Raise if the function ``name`` cannot take these arguments."""

    @abstractmethod
    def call(self, client: Client, name: str, arguments: Sequence[Any]) -> Any:
        """Call the function once; return its result."""

    @abstractmethod
    def metadata(self, client: Client, model: int) -> Any:
        """Return the metadata of a model on the board."""


_SLOT: Slot[BoardCalls] = Slot(TVM)
provide_board_calls = _SLOT.fill


def board_calls() -> BoardCalls:
    """Return the registered implementation; raise InputError if none is installed."""
    return _SLOT.get(
        "calling functions of a board by name", "or use set_input, run and get_output of the model"
    )
