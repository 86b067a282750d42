"""The executor with the methods that only TVM's ahead-of-time executor had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hilc.errors import InputError
from hilc.executor import Executor, Model, find_tensor

#: The methods that an executor gives by key.
_METHODS = (
    "set_input", "set_input_zero_copy", "set_output_zero_copy", "get_input", "get_output",
    "get_num_inputs", "get_num_outputs", "get_input_index", "get_input_name", "get_input_info",
    "run", "reset_state", "state", "set_state",
)  # fmt: skip


class AotModule(Executor):
    """An executor as TVM's scripts use it; of an executor, another one of the same model."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        if isinstance(model, Executor):
            # TVM's scripts wrap the result of a factory again.
            self.model, self._model = model.model, model._model

    def __getitem__(self, key: str) -> Callable[..., Any]:
        """Return the method called ``key``: TVM's way to access an executor's functions."""
        if key not in _METHODS:
            raise InputError(
                f"an executor has no function {key!r}", f"it has {', '.join(_METHODS)}"
            )
        method: Callable[..., Any] = getattr(self, key)
        return method

    def get_num_inputs(self) -> int:
        """Return the number of inputs."""
        return len(self.inputs)

    def get_num_outputs(self) -> int:
        """Return the number of outputs."""
        return len(self.outputs)

    def get_input_index(self, name: str) -> int:
        """Return the index of the input called ``name``; -1 if there is none, as in TVM."""
        return next((i for i, info in enumerate(self.inputs) if info.name == name), -1)

    def get_input_name(self, index: int) -> str:
        """Return the name of an input; :class:`~hilc.errors.InputError` where there is none."""
        return self.inputs[find_tensor(self.inputs, index, "input")].name

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Return the inputs' shapes and element types, by name."""
        return (
            {info.name: info.shape for info in self.inputs},
            {info.name: info.dtype for info in self.inputs},
        )
