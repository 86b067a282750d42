"""Inputs of a model: random ones from a seed, or arrays from NPZ and NPY files.

Arrays of a file are checked against the model's tensors before they are used; a mismatch is an
:class:`~hil.errors.InputError` that names file, array and remedy.
"""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from hilc.artifact.library import TensorInfo
from hilc.errors import HilError, InputError
from hilc.executor import Clipping, conversion_hint, quantized
from hilc.ir import ELEMENT_TYPES, Array
from hilc.support.arguments import typed
from hilc.support.inputs import check_regular
from hilc.support.outputs import replacing

#: First bytes of an NPY file and of a ZIP (NPZ) file, with and without entries.
_BEGINNINGS = (np.lib.format.MAGIC_PREFIX, b"PK\x03\x04", b"PK\x05\x06")
#: Limit of the total size of a file's arrays, checked before they are read, since deflate can
#: compress by a factor of a thousand. It is ten thousand colour pictures of 180 x 180.
_MAX_BYTES = 1 << 30
Sample = Mapping[str, Array]

#: Number of samples where none is given: as many as the board computes in about the time, within
#: these bounds.
LEAST_SAMPLES, MOST_SAMPLES = 10, 100
TIME_BOX_S = 5.0
#: Extremes that stand before the random samples: lowest, highest and zero inputs.
MOST_EXTREMES = 3
#: Samples whose outputs a measurement compares: up to so many, as fit in about so many seconds.
CHECK_SAMPLES, CHECK_S = 10, 1.0
#: Confidence of the statement about faults that samples would miss.
CONFIDENCE = 0.95

#: Identifies files of outputs, to tell them from the user's own.
_OUTPUTS_MARK = b"written by hil"

#: int32 and int64 inputs are usually counts and indices, so random values are small; values of
#: narrow types are quantized and use the whole range.
_COUNTS = (-1000, 1000)


def random_sample(tensors: Sequence[TensorInfo], seed: int, index: int) -> dict[str, Array]:
    """Return sample ``index`` of the random series ``seed``; it does not depend on the length.

    Quantized types are uniform over all values, floats are standard normal; the turns of a loop
    are uniform from none to its bound.
    """
    rng = np.random.default_rng([seed, index])
    return {tensor.name: _random_array(rng, tensor) for tensor in tensors}


def no_quantization(option: str, files: str) -> str:
    """Return the warning that ``option`` quantizes nothing where ``files`` state no inputs."""
    return f"{option} has no effect without {files}: random inputs are quantized already"


class RandomSamples(Sequence[Sample]):
    """The first ``count`` samples of the series ``seed``, computed on access."""

    @typed
    def __init__(self, tensors: Sequence[TensorInfo], seed: int, count: int) -> None:
        self._tensors = tensors
        self._seed = seed
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | Sequence[Sample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if not 0 <= index < self._count:
            raise IndexError(index)
        return self._sample(index)

    def _sample(self, index: int) -> Sample:
        return random_sample(self._tensors, self._seed, index)


def _random_array(rng: np.random.Generator, tensor: TensorInfo) -> Array:
    if tensor.dtype == "float32":
        return rng.standard_normal(tensor.shape, dtype=np.float32)
    if tensor.dtype == "bool":
        return rng.integers(0, 1, tensor.shape, endpoint=True).astype(np.bool_)
    row = ELEMENT_TYPES[tensor.dtype]
    low, high = row.bounds if row.quantized else _COUNTS
    if tensor.turns is not None:
        low, high = 0, tensor.turns
    return rng.integers(low, high, tensor.shape, dtype=np.dtype(tensor.dtype), endpoint=True)


class ExtremeSample(dict[str, Array]):
    """Inputs at an end of their range or at zero: chosen, not drawn."""


class StandardSamples(RandomSamples):
    """The samples of a verification for which none are given: extremes, then random ones.

    Every quantized input is at its lowest value, at its highest, then at zero; floats are only at
    zero. A loop makes no turn, as many as its bound, then one. The random samples are those of
    :func:`random_sample`, from its first on.
    :class:`TimeBoxed` decides how many are used.
    """

    @typed
    def __init__(self, tensors: Sequence[TensorInfo], seed: int, count: int = MOST_SAMPLES) -> None:
        super().__init__(tensors, seed, count)
        self._extremes = _extremes(tensors, seed)

    def _sample(self, index: int) -> Sample:
        if index < len(self._extremes):
            return self._extremes[index]
        return super()._sample(index - len(self._extremes))


class TimeBoxed:
    """Iterates over samples for about ``seconds``, and over ``least`` at least.

    Its length is the most that it may yield.
    """

    def __init__(
        self, samples: Sequence[Sample], least: int = LEAST_SAMPLES, seconds: float = TIME_BOX_S
    ) -> None:
        self._samples = samples
        self._least = least
        self._seconds = seconds

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        start = time.monotonic()
        for index, sample in enumerate(self._samples):
            if not wants_more(index, start, least=self._least, seconds=self._seconds):
                return
            yield sample


def wants_more(
    count: int, start: float, *, least: int = LEAST_SAMPLES, seconds: float = TIME_BOX_S
) -> bool:
    """Return whether ``count`` samples since ``start``, by the clock :func:`time.monotonic`, are
    fewer than ``least``, or computed in less than ``seconds``.
    """
    return count < least or time.monotonic() - start < seconds


def missed_fault_rate(samples: int) -> float | None:
    """Return the share of inferences in which a fault shows with a probability of
    :data:`CONFIDENCE` in one of ``samples`` independent ones; None for no sample.
    """
    return 1 - (1 - CONFIDENCE) ** (1 / samples) if samples else None


def _extremes(tensors: Sequence[TensorInfo], seed: int) -> list[ExtremeSample]:
    """Return samples with all inputs lowest, all highest, all zero, each only once.

    Counts and indices stay random: which of them a model takes is not known.
    """
    found: list[ExtremeSample] = []
    for kind in range(MOST_EXTREMES) if any(_extreme(tensor) for tensor in tensors) else ():
        values = random_sample(tensors, seed, 0)
        for tensor in tensors:
            if ends := _extreme(tensor):
                values[tensor.name] = np.full(tensor.shape, ends[kind], tensor.dtype)
        if not any(_equal(values, other) for other in found):
            found.append(ExtremeSample(values))
    return found


def _equal(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    return all(np.array_equal(array, other[name]) for name, array in one.items())


def _extreme(tensor: TensorInfo) -> tuple[int, int, int] | None:
    """Return the lowest value of an input, its highest, and that of the real number zero; for the
    turns of a loop one in its place.
    """
    if tensor.turns is not None:
        return 0, tensor.turns, 1
    if tensor.dtype == "float32":
        return 0, 0, 0
    if tensor.dtype == "bool":
        return 0, 1, 0
    row = ELEMENT_TYPES[tensor.dtype]
    if not row.quantized:
        return None
    low, high = row.bounds
    return low, high, min(max(tensor.zero_point or 0, low), high)


class ArraySamples(Sequence[Sample]):
    """The samples along the first axis of ``arrays``, which all have the same length.

    Each sample is a view created on access: views of all small samples would exceed the arrays.
    """

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays

    def __len__(self) -> int:
        return min(map(len, self._arrays.values()), default=0)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | Sequence[Sample]:
        taken = {name: array[index] for name, array in self._arrays.items()}
        return ArraySamples(taken) if isinstance(index, slice) else taken


def samples_of(
    given: Any, tensors: Sequence[TensorInfo], seed: int = 0, *, quantize: bool = False
) -> Iterable[Sample]:
    """Return samples for a model's inputs from the caller's argument.

    None selects the standard samples, as many as fit in the time. Other values are a number of
    random samples, an NPZ file, arrays by name with the samples along their first axis, an array
    for the only input, or samples one by one. With ``quantize`` floats become the inputs' integers.
    """
    if given is None:
        return TimeBoxed(StandardSamples(tensors, seed))
    if isinstance(given, Integral) and not isinstance(given, bool):
        if given < 1:
            raise InputError(f"samples={given} is no number of samples", "give 1 or more")
        return RandomSamples(tensors, seed, int(given))
    if isinstance(given, str | os.PathLike):
        return load_samples(Path(given), tensors, "input", quantize=quantize)
    if isinstance(given, Mapping):
        return array_samples(given, tensors, "input", quantize=quantize)
    if hasattr(given, "__array__"):
        if len(tensors) != 1:
            raise InputError(
                f"an array is given for the {len(tensors)} inputs of the model",
                f"give arrays by name: {', '.join(tensor.name for tensor in tensors)}",
            )
        return array_samples({tensors[0].name: given}, tensors, "input", quantize=quantize)
    if not isinstance(given, Iterable):
        raise InputError(
            f"samples={given!r:.60} is of type {type(given).__name__}",
            "give a number, an NPZ file, arrays, or samples one by one",
        )
    if not quantize:
        return given
    return _quantized_each(given, tensors)


def _quantized_each(given: Iterable[Sample], tensors: Sequence[TensorInfo]) -> Iterator[Sample]:
    """Yield samples with floats as integers; report once the values that were clipped."""
    clipping = Clipping()
    try:
        for index, sample in enumerate(given):
            yield quantized_sample(sample, tensors, clipping, index)
    finally:
        clipping.warn()


def first_sample(
    given: Any, tensors: Sequence[TensorInfo], *, quantize: bool = False
) -> Sample | None:
    """Return one sample from an NPZ file's first or from arrays by name; None for random ones."""
    if given is None:
        return None
    if isinstance(given, str | os.PathLike):
        return load_samples(Path(given), tensors, "input", quantize=quantize)[0]
    if not isinstance(given, Mapping):
        raise InputError(
            f"sample={given!r:.60} is of type {type(given).__name__}",
            "give an NPZ file, or a mapping of the inputs' names to arrays",
        )
    return quantized_sample(given, tensors) if quantize else given


def quantized_sample(
    sample: Mapping[str, npt.ArrayLike],
    tensors: Sequence[TensorInfo],
    clipping: Clipping | None = None,
    index: int = 0,
) -> dict[str, Array]:
    """Return a sample with floats as the inputs' integers; see :func:`hilc.executor.quantized`."""
    known = {tensor.name: tensor for tensor in tensors}
    return {
        name: quantized(known[name], array, clipping=clipping, sample=index)
        if name in known
        else np.asarray(array)
        for name, array in sample.items()
    }


@typed
def load_samples(
    path: str | Path, tensors: Sequence[TensorInfo], role: str, *, quantize: bool = False
) -> Sequence[Sample]:
    """Return the samples of an NPZ file with one array per tensor, by name, or of an NPY file for
    the only tensor.

    An array has the tensor's shape after a leading sample axis, or the tensor's own shape with the
    samples along a batch axis of 1. ``role`` is ``input`` or ``output``, for messages. With
    ``quantize`` floats become the tensors' integers (:func:`hilc.executor.quantized`).
    """
    if Path(path).suffix.lower() == ".npy" and len(tensors) == 1:
        arrays = {tensors[0].name: load_array(Path(path))}
    else:
        arrays = load_arrays(Path(path))
    return array_samples(arrays, tensors, role, str(path), quantize=quantize)


def array_samples(
    given: Mapping[str, npt.ArrayLike],
    tensors: Sequence[TensorInfo],
    role: str,
    path: str = "the mapping",
    *,
    quantize: bool = False,
) -> Sequence[Sample]:
    """Return the samples of arrays by name, as :func:`load_samples` does of a file."""
    arrays = {name: np.asarray(array) for name, array in given.items()}
    known = {tensor.name: tensor for tensor in tensors}
    for name in arrays:
        if name not in known:
            raise InputError(
                f"{path} contains an array {name!r}, which is not an {role} of the model",
                f"name the arrays {', '.join(known)}",
            )
    samples_by_name: dict[str, Array] = {}
    for name, tensor in known.items():
        if name not in arrays:
            raise InputError(
                f"{path} has no array for the model's {role} {name!r}",
                f"its arrays are {', '.join(arrays) or 'none'}; use the model's names",
            )
        label = f"{path}: array {name!r}"
        samples_by_name[name] = split_samples(arrays[name], tensor, label, quantize=quantize)
    counts = {name: len(array) for name, array in samples_by_name.items()}
    if len(set(counts.values())) > 1:
        raise InputError(
            f"{path} holds different numbers of samples: "
            + ", ".join(f"{name} {count}" for name, count in counts.items()),
            "give every array the same length along its first axis",
        )
    samples = ArraySamples(samples_by_name)
    if not samples:
        raise InputError(f"{path} holds no sample", "give at least one")
    return samples


def save_arrays(path: str | Path, arrays: Mapping[str, Array]) -> None:
    """Write an NPZ file without a date; array names may be arbitrary, unlike ``numpy.savez``."""
    with replacing(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        archive.comment = _OUTPUTS_MARK
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def is_saved(path: str | Path) -> bool:
    """Return whether :func:`save_arrays` wrote the file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment == _OUTPUTS_MARK
    except (zipfile.BadZipFile, OSError, ValueError):
        return False


def load_input(path: str | Path, tensor: TensorInfo, *, quantize: bool = False) -> Array:
    """Return the array of an NPY file, in the tensor's exact shape and type."""
    samples = split_samples(load_array(Path(path)), tensor, str(path), quantize=quantize)
    if len(samples) != 1:
        raise InputError(
            f"{path} holds {len(samples)} samples for {tensor.name!r} but one inference takes one",
            "use `hil verify --inputs F.npz` for several",
        )
    array: Array = samples[0]
    return array


def split_samples(array: Array, tensor: TensorInfo, label: str, *, quantize: bool = False) -> Array:
    """Return the array as (samples, *tensor.shape)."""
    if quantize:
        array = quantized(tensor, array)
    if array.dtype != np.dtype(tensor.dtype):
        raise InputError(
            f"{label} is {array.dtype} but the model's {tensor.name!r} is {tensor.dtype}",
            conversion_hint(tensor, array),
        )
    shape = tensor.shape
    if array.ndim == len(shape) + 1 and array.shape[1:] == shape:
        return array
    if array.shape == shape:
        return array[np.newaxis]
    if shape[:1] == (1,) and array.ndim == len(shape) and array.shape[1:] == shape[1:]:
        return array[:, np.newaxis]
    # Archives of TVM may lack a shape: the tensor is then flat and checked by size.
    if len(shape) == 1 and array.ndim > 1 and array.size and array.size % shape[0] == 0:
        if array.size == shape[0]:
            return array.reshape(1, -1)
        if array.size == shape[0] * len(array):
            return array.reshape(len(array), -1)
    raise InputError(
        f"{label} has shape {list(array.shape)} but the model's {tensor.name!r} has {list(shape)}",
        f"give one sample as {list(shape)} or several as {['N', *shape]}".replace("'", ""),
    )


def load_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of an NPZ file by their names."""
    loaded = _load(path, "an NPZ file (numpy.savez)")
    if isinstance(loaded, np.ndarray):
        raise InputError(
            f"{path} is an NPY file with one array, without a name", "numpy.savez writes an NPZ"
        )
    with loaded:
        _check_size(path, sum(member.file_size for member in loaded.zip.infolist()))
        arrays: dict[str, Array] = {}
        for name in loaded.files:
            try:
                array = loaded[name]
            except Exception as error:  # see _load
                raise InputError(
                    f"{path}: array {name!r} cannot be read: {_why(error)}",
                    _remedy(error, "save it again", "numpy.savez", f"{name}="),
                ) from None
            # numpy returns the raw bytes of a member that is not an NPY file.
            if not isinstance(array, np.ndarray):
                raise InputError(
                    f"{path}: the member {name!r} is not an NPY file", "numpy.savez writes an NPZ"
                )
            arrays[name] = array
        return arrays


def _check_size(path: Path, nbytes: int) -> None:
    if nbytes > _MAX_BYTES:
        raise InputError(
            f"{path} contains {nbytes} bytes of arrays; at most {_MAX_BYTES} are read",
            "split it into several files",
        )


def load_array(path: Path) -> Array:
    """Return the array of an NPY file.

    Raise :class:`InputError` if the file cannot be read or is an NPZ archive.
    """
    loaded = _load(path, "an NPY file (numpy.save)")
    if not isinstance(loaded, np.ndarray):
        with loaded:
            names = ", ".join(map(repr, loaded.files)) or "none"
        raise InputError(
            f"{path} is an NPZ file (arrays: {names}), not an NPY file", "numpy.save writes an NPY"
        )
    return loaded


def _load(path: Path, what: str) -> Any:
    check_regular(path, f"give {what}", most_bytes=None)
    try:
        with path.open("rb") as file:
            start = file.read(len(np.lib.format.MAGIC_PREFIX))
        # numpy takes other files for pickles and suggests loading them.
        if not start.startswith(_BEGINNINGS):
            empty = "" if start else "empty, so "
            raise InputError(f"{path} is {empty}neither an NPZ nor an NPY file", f"give {what}")
        _check_size(path, path.stat().st_size)
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist", f"give {what}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder", f"give {what}") from None
    except HilError:
        raise
    except Exception as error:
        # numpy and zipfile raise arbitrary exceptions for a corrupt file.
        remedy = _remedy(error, f"give {what}", "numpy.save")
        raise InputError(f"{path} cannot be read: {_why(error)}", remedy) from None


def _why(error: Exception) -> str:
    # numpy's message suggests allow_pickle, which would execute code in the file.
    if _is_of_objects(error):
        return "it holds Python objects, not numbers"
    return str(error) or ("not enough memory" if isinstance(error, MemoryError) else repr(error))


def _remedy(error: Exception, remedy: str, function: str, keyword: str = "") -> str:
    """Return the hint for an array that cannot be read: how to save one of objects."""
    if not _is_of_objects(error):
        return remedy
    # Python's texts, as pandas has them, are the most frequent objects.
    return (
        f"save texts, such as labels, as {function}(file, {keyword}labels.astype(str)), and "
        f"numbers as {function}(file, {keyword}array.astype(float))"
    )


def _is_of_objects(error: Exception) -> bool:
    return "pickle" in str(error)
