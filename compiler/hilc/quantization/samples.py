"""Samples for calibration: arrays by input, checked against the model before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hilc.errors import InputError
from hilc.ir import Array, Graph, Tensor
from hilc.support.suggest import counted

#: Fewer samples hardly show the ranges of a model's tensors.
_FEW = 10
#: Inputs of one run, by name.
Sample = Mapping[str, Array]


def named_arrays(given: Any, names: Sequence[str]) -> dict[str, Array]:
    """Return samples as one array per input: given as these by name, as a tuple in the order of
    the inputs, or as one array for the only input.

    Raise :class:`~hilc.errors.InputError` for another number of arrays than inputs.
    """
    if isinstance(given, Mapping):
        return {name: _samples(name, value) for name, value in given.items()}
    parts = list(given) if isinstance(given, tuple) else [given]
    if len(parts) != len(names):
        raise InputError(
            f"samples for {len(parts)} inputs were given, and the model has {len(names)}",
            f"give a mapping of names to arrays, or a tuple in this order: {', '.join(names)}",
        )
    return {name: _samples(name, part) for name, part in zip(names, parts, strict=True)}


def _samples(name: str, value: Any) -> Array:
    return _array(
        f"the samples of {name!r}", value, "give an array whose first axis counts the samples"
    )


def _array(what: str, value: Any, remedy: str) -> Array:
    detach = getattr(value, "detach", None)
    if detach is not None:  # a tensor of PyTorch
        value = detach().cpu()
    try:
        array = np.asarray(value)
    except Exception as error:
        raise InputError(f"{what} are no array: {error}", remedy) from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what} are no array of numbers: {array.dtype}", remedy)
    return array


class Samples(Sequence[Sample]):
    """Samples of a graph's inputs.

    Each array has the shape of its input, with the count of samples before it, or in place of a
    first size of 1. Floats of another width are converted; all else is refused with
    :class:`~hilc.errors.InputError`: unknown and missing names, other shapes and types, numbers
    that are not finite, no sample at all.
    """

    def __init__(self, given: Mapping[str, Array], graph: Graph) -> None:
        inputs = {name: graph.tensors[name] for name in graph.inputs}
        listed = ", ".join(map(repr, inputs)) or "none"
        for name in given:
            if name not in inputs:
                raise InputError(
                    f"there are samples of {name!r}, which is no input of the model",
                    f"its inputs are {listed}",
                )
        for name in inputs:
            if name not in given:
                raise InputError(
                    f"there are no samples of the model's input {name!r}",
                    f"name the arrays as the inputs: {listed}",
                )
        self._arrays = {n: _stacked(n, given[n], tensor) for n, tensor in inputs.items()}
        counts = {name: len(array) for name, array in self._arrays.items()}
        if len(set(counts.values())) > 1:
            shown = ", ".join(f"{count} of {name!r}" for name, count in counts.items())
            raise InputError(
                f"the inputs have different numbers of samples: {shown}",
                "give each input the same number",
            )
        self._count = next(iter(counts.values()), 0)
        if not self._count:
            raise InputError("there is no sample", "give at least one, better a hundred or more")

    def __len__(self) -> int:
        return self._count

    def doubts(self) -> tuple[str, ...]:
        """Return why the ranges of these samples may not be those of other inputs, one sentence
        each.
        """
        found = []
        if self._count < _FEW:
            found.append(
                f"the ranges are those of {counted(self._count, 'sample')}; give about 100 that "
                "resemble the board's inputs"
            )
        if self._count > 1 and all((a == a[:1]).all() for a in self._arrays.values()):
            found.append(
                f"all {self._count} calibration samples are equal, so the ranges are those of one; "
                "give samples that differ as the board's inputs do"
            )
        return tuple(found)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return {name: array[index] for name, array in self._arrays.items()}

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(self._count))


def _stacked(name: str, array: Array, tensor: Tensor) -> Array:
    wanted = np.dtype(tensor.dtype)
    if array.dtype != wanted and not array.dtype.kind == wanted.kind == "f":
        raise InputError(
            f"the samples of {name!r} are {array.dtype}, and the input is {wanted}",
            f"convert them: array.astype({str(wanted)!r}), scaled as in training",
        )
    if wanted.kind == "f":
        array = _finite(name, array, wanted)
    shape = tensor.shape
    if array.shape == shape and shape[:1] != (1,):
        return array[np.newaxis]
    if array.ndim == len(shape) + 1 and array.shape[1:] == shape:
        return array
    if shape[:1] == (1,) and array.ndim == len(shape) and array.shape[1:] == shape[1:]:
        return array[:, np.newaxis]
    raise InputError(
        f"the samples of {name!r} have the shape {list(array.shape)}, and the input has "
        f"{list(shape)}",
        f"give an array of the shape [N, {', '.join(map(str, shape))}]",
    )


def _finite(name: str, array: Array, wanted: np.dtype[Any]) -> Array:
    """Return floats in the wanted width; InputError where one is not finite, or not in that."""
    with np.errstate(over="ignore"):
        made = array.astype(wanted)
    if np.isfinite(made).all():
        return made
    place = tuple(map(int, np.argwhere(~np.isfinite(made))[0]))
    if np.isfinite(array[place]):
        raise InputError(
            f"the samples of {name!r} hold {array[place]} at {list(place)}, which is beyond "
            f"{wanted}",
            "scale them as in training",
        )
    raise InputError(
        f"the samples of {name!r} hold {array[place]} at {list(place)}",
        "leave out samples with values that are not finite",
    )


def check_labels(labels: Any, count: int) -> Array:
    """Return the class of each sample; InputError unless they are ``count`` whole numbers."""
    remedy = "give one whole number, the class, for each sample"
    array = _array("the labels", labels, remedy)
    if array.dtype.kind not in "iu" or array.size != count or max(array.shape, default=0) != count:
        raise InputError(
            f"the labels are {array.dtype}{list(array.shape)} for {count} samples",
            remedy,
        )
    return array.reshape(-1)
