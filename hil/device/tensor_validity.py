"""Which tensors of a model are valid on a board: its inputs, outputs and states.

Inputs and outputs may share memory with other tensors of a model. So a run can overwrite the
inputs, and writing an input can overwrite the outputs of the last run. The bytes do not show it; it
is tracked here, and what was lost is sent again or refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilc.artifact.library import Module, TensorInfo
from hilc.errors import InputError
from hilc.ir import Array


class TensorValidity:
    """The validity of one model's inputs, outputs and states on the board."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._session = 0
        self.forget()

    def forget(self) -> None:
        """Reset to the start: every input is zeros, states are to be reset, nothing has run."""
        self._values: dict[int, Array] = {}
        #: Inputs whose value the board has.
        self._on_board: set[int] = set()
        #: Inputs that the user passed to a function: its name, and whether its result is lost.
        self._functions: dict[int, tuple[str, bool]] = {}
        #: Why an output is not available, by its index.
        self._stale = self._all_stale("the model has not run")
        self._ran = False
        #: States that do not hold what they should, and why; None for the reset that comes first.
        self._lost = dict.fromkeys(range(len(self._module.states)))
        self._lost_why: str | None = None
        #: Counter of changes to the model's memory.
        self.steps = 0

    def open_session(self, session: int) -> None:
        """Record that the board may have restarted since the last session."""
        if session == self._session:
            return
        self._session = session
        self._lose_inputs()
        why = "the board may have restarted since the model ran"
        if self._ran:
            self._stale = self._all_stale(why)
        if len(self._lost) < len(self._module.states) or self._lost_why is not None:
            self._lose_states(why)

    # -- inputs ------------------------------------------------------------------------------

    def value(self, index: int) -> Array:
        """Return the value that an input was set to; zeros before."""
        info = self._module.inputs[index]
        value = self._values.get(index)
        return np.zeros(info.shape, info.dtype) if value is None else value

    def lost_value(self, index: int) -> Array | None:
        """Return the value of an input if the board may have lost it; None if it has it, or has the
        result of a function.
        """
        is_lost = index not in self._on_board and index not in self._functions
        return self.value(index) if is_lost else None

    def set(self, index: int, value: Array) -> None:
        """Record that the user sets an input; :meth:`begin_write` follows."""
        self._values[index] = value

    def begin_write(self, index: int) -> None:
        """Record that the value is being sent; :meth:`end_write` follows."""
        self.steps += 1
        self._on_board.discard(index)
        self._functions.pop(index, None)
        tensor = self._module.inputs[index]
        for number, output in enumerate(self._module.outputs):
            if self._may_overlap(tensor, output):
                self._stale.setdefault(
                    number, f"input {tensor.name!r} was set since, which shares its memory"
                )

    def end_write(self, index: int) -> None:
        """Record that the board has the value of the input."""
        self._on_board.add(index)

    def has_input(self, index: int) -> bool:
        """Return whether the board has the input."""
        return index in self._on_board

    def to_send(self) -> list[tuple[int, Array]]:
        """Return the inputs that a run needs and the board may not have.

        Raise for an input whose value only the board knows.
        """
        for index, (function, is_spent) in self._functions.items():
            if not is_spent and index not in self._values:
                continue  # the function's result is the input
            name = self._module.inputs[index].name
            what = "its result is lost" if is_spent else "it may have changed it"
            raise InputError(
                f"input {name!r} of model {self._module.name!r} was passed to the function "
                f"{function!r}, and {what}",
                "set the input, or call the function, again before the run",
            )
        known = self._on_board.union(self._functions)
        return [(i, self.value(i)) for i in range(len(self._module.inputs)) if i not in known]

    # -- states ------------------------------------------------------------------------------

    @property
    def awaits_reset(self) -> bool:
        """Return whether the states are still to be reset for the first time."""
        return bool(self._lost) and self._lost_why is None

    def has_state(self, index: int | None = None) -> None:
        """Record that a state was set, or all of them were reset."""
        self.steps += 1
        for known in range(len(self._module.states)) if index is None else (index,):
            self._lost.pop(known, None)

    def require_state(self, index: int) -> None:
        """Refuse a state whose value nobody knows."""
        if index in self._lost:
            raise InputError(
                f"state {self._module.states[index].name!r} of model {self._module.name!r} is "
                f"lost: {self._lost_why}",
                "reset the states and run the sequence again, or set each of them",
            )

    def require_states(self) -> None:
        """Refuse a run on such states."""
        for index in self._lost:
            self.require_state(index)

    def _lose_states(self, why: str) -> None:
        self._lost = dict.fromkeys(range(len(self._module.states)))
        self._lost_why = why

    # -- runs --------------------------------------------------------------------------------

    def begin_run(self) -> None:
        """Mark every input and output as undefined until :meth:`end_run`."""
        self.steps += 1
        self._ran = True
        self._stale = self._all_stale("the model's last run did not end well")
        self._lose_states("the model's last run did not end well")
        if self._module.io_in_pool or self._module.fed_rows:
            self._lose_inputs()

    def _lose_inputs(self) -> None:
        self._on_board.clear()
        self._functions = {index: (name, True) for index, (name, _) in self._functions.items()}

    def overwritten(self) -> None:
        """Record that a layer's memory was set, which others may share."""
        self._stale = self._all_stale("the memory of a layer was set since")
        if self._module.io_in_pool:
            self._lose_inputs()

    def end_run(self) -> None:
        """Record that a run has ended well: outputs and states are valid."""
        self._stale.clear()
        self._lost.clear()

    def require_output(self, index: int) -> None:
        """Raise for an output that is not the result of the last run."""
        if index in self._stale:
            raise InputError(
                f"output {self._module.outputs[index].name!r} of model {self._module.name!r} is "
                f"not available: {self._stale[index]}",
                "run the model, then get its outputs before its inputs are set again",
            )

    def called(self, function: str, inputs: Sequence[int]) -> None:
        """Record that a user-selected function ran with these inputs, and may have written to any
        memory.
        """
        self.steps += 1
        if self._module.io_in_pool:
            self._lose_inputs()
        self._on_board.difference_update(inputs)
        self._functions.update(dict.fromkeys(inputs, (function, False)))
        self._stale.clear()
        self._lost.clear()

    def _all_stale(self, why: str) -> dict[int, str]:
        return dict.fromkeys(range(len(self._module.outputs)), why)

    def _may_overlap(self, one: TensorInfo, other: TensorInfo) -> bool:
        if not self._module.io_in_pool and not self._module.fed_rows:
            return False
        if one.offset is None or other.offset is None:
            return True  # only the board knows their addresses
        return (
            one.pool == other.pool
            and one.offset < other.offset + other.nbytes
            and other.offset < one.offset + one.nbytes
        )
