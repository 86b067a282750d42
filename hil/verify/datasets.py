"""Labelled data sets: NPZ files, folders with one subfolder for each class, CSV files.

All of them come from users, so everything is checked: shapes, types, numbers that are not finite,
labels. Files of a folder are read when their sample is asked for, so a folder may be larger than
memory.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hil.errors import InputError
from hil.verify.samples import Sample, load_array, load_arrays
from hilc.artifact.library import TensorInfo
from hilc.executor import Clipping, quantized
from hilc.ir import Array
from hilc.support import optional
from hilc.support.inputs import check_regular
from hilc.support.jsondata import shown_argument
from hilc.support.suggest import listed, nearest

#: Names of labels in NPZ files, and of their columns in CSV files, that need not be given.
LABEL_NAMES = ("labels", "label", "y_test", "y", "targets", "target", "classes", "class")
#: The index of MLPerf Tiny's data sets: file, number of classes, class; of a file of several
#: inputs also the bytes of one and the distance of their starts.
INDEX = "y_labels.csv"
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp")
#: Pillow's names of grey, colours, and colours with transparency; how many channels each has.
_MODES = {"L": 1, "RGB": 3, "RGBA": 4}
_READABLE = (".npy", ".bin", *_PICTURES)
#: Largest file of one sample, and of a CSV file, whose text takes ten times that, in bytes.
_MOST_BYTES, _MOST_CSV_BYTES = 1 << 30, 1 << 28
#: No model has as many classes, and floats are exact up to it.
_LARGEST_LABEL = 1 << 31
#: A whole number of an index.
_COUNT = re.compile("[0-9]{1,9}")
#: More files than this are no data set but a mistake in the path.
_MOST_FILES = 10_000_000


@dataclass(frozen=True)
class Scaling:
    """How the numbers of the files become the model's input values.

    Integers of the input's own type are taken as they are, and floats quantized by the input's
    scale. With ``mean`` or ``std``, every number ``x`` is the float ``(x - mean) / std``, of each
    channel where there are several. With ``as_integers`` the numbers are the input's integers, of
    whatever type they are.
    """

    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    as_integers: bool = False

    def __post_init__(self) -> None:
        if self.as_integers and (self.mean or self.std):
            raise InputError(
                "the numbers are the model's integers and have a mean or a std",
                "give one of them",
            )
        for what, values in (("mean", self.mean), ("std", self.std)):
            if values is not None and not (values and np.isfinite(values).all()):
                raise InputError(f"{what} {values!r} is no list of numbers", "write 0 or 0.5,0.5,1")
        if self.std is not None and 0 in self.std:
            raise InputError("std is 0, and values are divided by it", "give another std")

    def real(self, values: Array, what: str) -> Array:
        """Return numbers as floats, in float64."""
        with np.errstate(over="ignore", invalid="ignore"):
            floats = self._scaled(values, what)
        if not np.isfinite(floats).all():
            raise InputError(
                f"{what} is not finite any more after mean and std", "give another mean or std"
            )
        return floats

    def _scaled(self, values: Array, what: str) -> Array:
        floats: Array = values.astype(np.float64)
        for numbers, scale in ((self.mean, False), (self.std, True)):
            if numbers is None:
                continue
            if len(numbers) > 1 and (not values.ndim or values.shape[-1] != len(numbers)):
                raise InputError(
                    f"{what} has the shape {list(values.shape)}, and {len(numbers)} channels have "
                    "a mean or a std",
                    "the channels are the last axis: give one number for each, or one for all",
                )
            floats = floats / numbers if scale else floats - numbers
        return floats


@dataclass(frozen=True)
class DataSet:
    """Samples of a model's inputs and their labels."""

    #: One sample at a time, read when it is asked for.
    samples: Sequence[Sample]
    #: A class for each sample, or the values to be computed, one row for each sample.
    labels: Array
    #: Where each sample is from, for messages: a file, or a row.
    sources: Sequence[str]
    #: Names of the classes; None where they are numbers.
    classes: tuple[str, ...] | None = None
    #: Files that were left out, since they are none of the kinds that are read.
    skipped: int = 0
    #: What was assumed about the labels; empty where nothing was.
    assumption: str = ""
    #: The floats that were clipped to the range of a quantized input, of the samples read so far.
    clipping: Clipping = field(default_factory=Clipping)

    def __len__(self) -> int:
        return len(self.labels)

    def drawn(self, count: int, seed: int) -> DataSet:
        """Return ``count`` samples at random, in their order; all of them if there are no more."""
        if count >= len(self):
            return self
        chosen = np.sort(np.random.default_rng(seed).choice(len(self), count, replace=False))
        return replace(
            self,
            samples=_Chosen(self.samples, chosen.tolist()),
            labels=self.labels[chosen],
            sources=[self.sources[i] for i in chosen],
        )


class _Chosen(Sequence[Sample]):
    """Some samples of others."""

    def __init__(self, samples: Sequence[Sample], indices: Sequence[int]) -> None:
        self._samples = samples
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: Any) -> Any:
        return self._samples[self._indices[index]]


class _Lazy(Sequence[Sample]):
    """Samples that a function returns."""

    def __init__(self, count: int, read: Callable[[int], Sample]) -> None:
        self._count = count
        self._read = read

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < self._count:
            raise IndexError(index)
        return self._read(index)


class ModelClasses(tuple[str, ...]):
    """The classes that a model names, which a data set may number instead."""

    def are_positions(self, names: Iterable[str]) -> bool:
        """Return whether the names in a data set are positions of classes whose names are texts."""
        return not all(map(_COUNT.fullmatch, self)) and all(map(_COUNT.fullmatch, names))


def load_data(
    path: str | Path,
    inputs: Sequence[TensorInfo],
    *,
    labels: str | None = None,
    classes: Sequence[str] | None = None,
    scaling: Scaling | None = None,
    values: int = 0,
) -> DataSet:
    """Return the data set at ``path``: an NPZ, NPY or CSV file, or a folder.

    An NPY file has the samples of the only input along its first axis. ``labels`` says where the
    labels are: an array of the NPZ file or an NPY file; one or several
    columns of a CSV file, by name or number from 0, separated by commas. ``classes`` names the
    classes in the order of their numbers; otherwise folders and texts are sorted, as numbers where
    all are. Those of :class:`ModelClasses` do not rename numbers. ``values`` is the number of
    values of a label that is no class; 0: it is a class. Raise
    :class:`~hil.errors.InputError` for what is no data set of this model.
    """
    path, scaling = Path(path), scaling or Scaling()
    if not path.exists():
        raise InputError(
            f"the data set {path} does not exist",
            "give an NPZ file (numpy.savez), an NPY file with --labels LABELS.npy, a CSV file, or "
            "a folder with a subfolder for each label",
        )
    if path.is_dir():
        if labels is not None:
            raise InputError(
                f"--labels {labels!r} is given for the folder {path}, whose subfolders are the "
                "labels",
                "drop it",
            )
        if values:
            raise InputError(
                f"the folder {path} has classes, and the metric compares values",
                "give an NPZ or a CSV file",
            )
        read = _index if (path / INDEX).is_file() else _folder
        data = read(path, inputs, scaling, classes)
    elif path.suffix.lower() == ".csv":
        data = _csv(path, inputs, scaling, classes, labels, values)
    else:
        data = _npz(path, inputs, scaling, labels, values, classes)
    if not len(data):
        raise InputError(f"{path} holds no sample", "give at least one")
    return data


def digest_of(sample: Sample) -> str:
    """Return a digest of a sample as the model takes it."""
    digest = hashlib.sha256()
    for name, array in sorted(sample.items()):
        digest.update(f"{name}:{array.dtype.str}{array.shape}:".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


# -- what the model takes ----------------------------------------------------------------------


def _fitted(
    array: Array, tensor: TensorInfo, scaling: Scaling, clipping: Clipping, what: str
) -> Array:
    """Return one sample of an input in its shape and type."""
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} is {array.dtype}, no numbers", "give an array of numbers")
    if array.size != prod(tensor.shape) or not _is_like(array.shape, tensor.shape):
        raise InputError(
            f"{what} has the shape {list(array.shape)} but the model's {tensor.name!r} has "
            f"{list(tensor.shape)}",
            _shape_remedy(array, tensor),
        )
    return _typed(array, tensor, scaling, clipping, what).reshape(tensor.shape)


def _shape_remedy(array: Array, tensor: TensorInfo) -> str:
    is_of_batch = len(tensor.shape) > 1 and array.size == prod(tensor.shape[1:])
    if is_of_batch and _is_like(array.shape, tensor.shape[1:]):
        one = ",".join(map(str, (1, *tensor.shape[1:])))
        return (
            f"the model computes {tensor.shape[0]} samples a run, and an evaluation gives it one: "
            f"compile it for one, with --shape {tensor.name}={one} if this axis is dynamic"
        )
    return "give one sample in this shape, without axes of size 1 or flat"


def _is_like(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """Return whether shapes are equal but for axes of size 1, or one is flat."""
    short, other = ([size for size in sizes if size != 1] for sizes in (shape, wanted))
    return short == other or len(short) <= 1


def _clipping() -> Clipping:
    return Clipping("--integers")


def _typed(
    array: Array, tensor: TensorInfo, scaling: Scaling, clipping: Clipping, what: str
) -> Array:
    wanted = np.dtype(tensor.dtype)
    _check_finite(array, what)
    if scaling.mean is not None or scaling.std is not None:
        reals = scaling.real(array, what)
        return quantized(tensor, reals, what, clipping=clipping, sample=what)
    is_own = array.dtype.newbyteorder("=") == wanted
    # Without a scale they are counts and indices.
    if scaling.as_integers or is_own or (tensor.scale is None and wanted.kind != "f"):
        return _as_integers(array, tensor, scaling, what)
    # 0 and 1 have one meaning as floats.
    if array.dtype.kind == "f" or (wanted.kind == "f" and array.dtype.kind == "b"):
        reals = array.astype(np.float64)
        return quantized(tensor, reals, what, clipping=clipping, sample=what)
    scale = "" if tensor.scale is None else f" with the scale {tensor.scale:.6g}"
    own = f", --integers for the model's own {tensor.dtype}" if tensor.scale is not None else ""
    raise InputError(
        f"{what} is {array.dtype}, and the model's {tensor.name!r} is {tensor.dtype}{scale}",
        "say what the numbers mean: --std 255 for pictures whose values were 0 to 1 in training, "
        "--mean 127.5 --std 127.5 for -1 to 1, --std 1 for numbers that are used as they are"
        f"{own} (in Python scaling=hil.samples.Scaling(...)); or store floats, scaled as in "
        "training",
    )


def _check_finite(array: Array, what: str) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        place = [int(i) for i in np.argwhere(~np.isfinite(array))[0]]
        raise InputError(
            f"{what} holds {array[tuple(place)]} at {place}",
            "remove the values that are not finite",
        )


def _as_integers(array: Array, tensor: TensorInfo, scaling: Scaling, what: str) -> Array:
    wanted = np.dtype(tensor.dtype)
    if array.dtype.newbyteorder("=") == wanted:
        return array.astype(wanted)
    if wanted.kind == "f":
        raise InputError(
            f"--integers is given, and the model's {tensor.name!r} is {tensor.dtype}", "drop it"
        )
    low, high = (0, 1) if wanted.kind == "b" else (np.iinfo(wanted).min, np.iinfo(wanted).max)
    # Without a scale, floats cannot be quantized.
    is_chosen = scaling.as_integers and tensor.scale is not None
    remedy = f"give whole numbers from {low} to {high}"
    remedy += ", or drop --integers: floats are then quantized" if is_chosen else ""
    if (fractions := array[array != np.floor(array)]).size:
        raise InputError(
            f"{what} holds {fractions[0]:g}, and the model's {tensor.name!r} takes whole numbers "
            f"from {low} to {high}" + " with --integers" * is_chosen,
            remedy,
        )
    if array.min() < low or array.max() > high:
        raise InputError(
            f"{what} holds {array.min():g} to {array.max():g}, and the model's {tensor.name!r} "
            f"takes whole numbers from {low} to {high}",
            remedy,
        )
    return array.astype(wanted)


def _only_input(inputs: Sequence[TensorInfo], what: str) -> TensorInfo:
    if len(inputs) != 1:
        raise InputError(
            f"{what} holds samples of one input, and the model has {len(inputs)}: "
            f"{', '.join(tensor.name for tensor in inputs)}",
            "give an NPZ file with one array for each, by name",
        )
    return inputs[0]


# -- NPZ -----------------------------------------------------------------------------------------


def _npz(
    path: Path,
    inputs: Sequence[TensorInfo],
    scaling: Scaling,
    labels: str | None,
    values: int,
    classes: Sequence[str] | None,
) -> DataSet:
    if path.suffix.lower() == ".npy":
        if labels is None or not labels.lower().endswith(".npy"):
            raise InputError(
                f"{path} holds one array, the samples, and no labels",
                "give their file: --labels LABELS.npy",
            )
        arrays = {inputs[0].name if len(inputs) == 1 else path.name: load_array(path)}
    else:
        arrays = load_arrays(path)
    found = _npz_labels(path, arrays, inputs, labels)
    return array_data(
        arrays, found, inputs, what=str(path), scaling=scaling, values=values, classes=classes
    )


def array_data(
    arrays: Mapping[str, Array],
    labels: Array,
    inputs: Sequence[TensorInfo],
    *,
    what: str = "the data set",
    scaling: Scaling | None = None,
    values: int = 0,
    classes: Sequence[str] | None = None,
) -> DataSet:
    """Return the data set of arrays by the inputs' names, or of one array for the only input.

    Labels that are texts are names of classes.
    """
    chosen = scaling or Scaling()
    names, assumption = None if classes is None else tuple(classes), ""
    if isinstance(classes, ModelClasses) and labels.dtype.kind in "iuf" and not values:
        labels = _checked_labels(labels, values, what).astype(np.str_)
    if labels.dtype.kind == "U" and labels.ndim == 1 and not values:
        words = labels.tolist()
        distinct = sorted(set(words))
        numbers, names = _numbered(distinct, classes, f"the labels of {what}")
        assumption = _assumption(distinct, classes)
        labels = np.array([numbers[word] for word in words], np.int64)
    labels = _checked_labels(labels, values, what)
    given = {tensor.name: arrays[tensor.name] for tensor in inputs if tensor.name in arrays}
    if len(inputs) == 1 and not given and len(arrays) == 1:
        given = {inputs[0].name: next(iter(arrays.values()))}
    if len(given) != len(inputs) or len(given) != len(arrays):
        raise InputError(
            f"{what} holds {listed(arrays, 'and') if arrays else 'no array'} beside the labels, "
            f"and the model's inputs are {', '.join(tensor.name for tensor in inputs)}",
            "name each array as its input; --labels NAME says which one has the labels",
        )
    counts = {name: len(array) if array.ndim else 0 for name, array in given.items()}
    for name, count in counts.items():
        if count != len(labels):
            raise InputError(
                f"{what} holds {len(labels)} labels and {count} samples of {name!r}",
                "give one label for each sample, which the first axis counts",
            )

    clipping = _clipping()

    def sample(index: int) -> Sample:
        return {
            tensor.name: _fitted(
                given[tensor.name][index],
                tensor,
                chosen,
                clipping,
                f"sample {index} of {tensor.name!r}",
            )
            for tensor in inputs
        }

    sources = _Numbered("sample", len(labels))
    samples = _Lazy(len(labels), sample)
    return DataSet(samples, labels, sources, names, assumption=assumption, clipping=clipping)


class _Numbered(Sequence[str]):
    """``sample 0``, ``sample 1`` and so on."""

    def __init__(self, word: str, count: int) -> None:
        self._word, self._count = word, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        return f"{self._word} {index}"


def _npz_labels(
    path: Path, arrays: dict[str, Array], inputs: Sequence[TensorInfo], labels: str | None
) -> Array:
    """Return the labels, and take them out of the arrays if they are there."""
    if labels is not None and labels not in arrays and labels.lower().endswith(".npy"):
        return load_array(Path(labels))
    own = {tensor.name for tensor in inputs}
    known = [labels] if labels is not None else [n for n in LABEL_NAMES if n not in own]
    name = next((name for name in known if name in arrays), None)
    if name is None:
        wanted = f"called {labels!r}" if labels else f"of labels ({', '.join(LABEL_NAMES)})"
        raise InputError(
            f"{path} has no array {wanted}{nearest(labels or 'labels', arrays)}; its arrays are "
            f"{', '.join(arrays) or 'none'}",
            "give its name or an NPY file: --labels",
        )
    return arrays.pop(name)


def _checked_labels(labels: Array, values: int, what: str) -> Array:
    """Return labels as one class for each sample, or as ``values`` floats for each."""
    if labels.dtype.kind not in "biuf" or not labels.ndim:
        of_texts = ", and texts as labels.astype(str)" if labels.dtype.kind == "O" else ""
        raise InputError(
            f"the labels of {what} are no list of numbers, but {labels.dtype}{list(labels.shape)}",
            f"give one a sample{of_texts}",
        )
    _check_finite(labels, f"the array of labels of {what}")
    count = len(labels)
    if values:
        if labels.size != count * values:
            raise InputError(
                f"the labels of {what} have the shape {list(labels.shape)}, and the model computes "
                f"{values} values a sample",
                f"give [{count}, {values}]",
            )
        return labels.astype(np.float64).reshape(count, values)
    flat = labels.reshape(-1)
    if flat.size != count or (flat != np.floor(flat)).any():
        raise InputError(
            f"the labels of {what} are {labels.dtype}{list(labels.shape)}",
            "give the number of the class of each sample, from 0 on",
        )
    far = np.flatnonzero((flat < -_LARGEST_LABEL) | (flat > _LARGEST_LABEL))
    if far.size:
        raise InputError(
            f"the labels of {what} hold {flat[far[0]]:g} at [{far[0]}], which is no class",
            "give the number of the class of each sample, from 0 on",
        )
    return flat.astype(np.int64)


# -- folders -------------------------------------------------------------------------------------


def _folder(
    path: Path, inputs: Sequence[TensorInfo], scaling: Scaling, classes: Sequence[str] | None
) -> DataSet:
    tensor = _only_input(inputs, f"the folder {path}")
    names = sorted(entry.name for entry in os.scandir(path) if _is_shown(entry) and entry.is_dir())
    if not names:
        raise InputError(
            f"{path} has no subfolder, and a data set has one for each class",
            f"sort the samples into subfolders, or add {INDEX}",
        )
    numbers, shown = _numbered(names, classes, str(path))
    files: list[str] = []
    labels: list[int] = []
    skipped = 0
    for name in sorted(names, key=lambda name: numbers[name]):
        found, others = _files(path / name, len(files))
        files += [f"{name}/{file}" for file in found]
        labels += [numbers[name]] * len(found)
        skipped += others
    if not files:
        raise InputError(
            f"{path} holds no sample: its subfolders have no file of {', '.join(_READABLE)}",
            "give samples as NPY files or pictures",
        )

    clipping = _clipping()

    def sample(index: int) -> Sample:
        array = _read_file(path / files[index], tensor, scaling)
        return {
            tensor.name: _fitted(array, tensor, scaling, clipping, shown_argument(files[index]))
        }

    sources = [shown_argument(file) for file in files]
    shown_names = None if shown is None else tuple(shown_argument(name) for name in shown)
    samples = _Lazy(len(files), sample)
    assumption = _assumption(names, classes)
    return DataSet(samples, np.array(labels), sources, shown_names, skipped, assumption, clipping)


def _is_shown(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".")


def _files(folder: Path, so_far: int) -> tuple[list[str], int]:
    """Return the sorted files of a class that can be read, and how many others it has."""
    found, others = [], 0
    for entry in os.scandir(folder):
        if not _is_shown(entry) or not entry.is_file():
            continue
        if Path(entry.name).suffix.lower() in _READABLE:
            found.append(entry.name)
        else:
            others += 1
        if so_far + len(found) > _MOST_FILES:
            raise InputError(
                f"{folder.parent} has more than {_MOST_FILES} files", "give a smaller data set"
            )
    return sorted(found), others


def _numbered(
    names: Sequence[str], classes: Sequence[str] | None, what: str
) -> tuple[Mapping[str, int], tuple[str, ...] | None]:
    """Return the number of each named class, and the names by number; None where the names are
    the numbers.
    """
    if isinstance(classes, ModelClasses) and classes.are_positions(names):
        numbers = {name: int(name) for name in names}
        beyond = max(numbers.values(), default=0)
        if beyond >= len(classes):
            raise InputError(
                f"{what} has the number {beyond}, and the model has {len(classes)} classes: "
                f"{_positions(classes)}",
                "give the names of the classes as labels, or their positions",
            )
        return numbers, tuple(classes)
    if classes is not None:
        missing = [name for name in names if name not in classes]
        if missing:
            raise InputError(
                f"{what} has the class {missing[0]!r}, which is none of {', '.join(classes)}"
                f"{nearest(missing[0], classes)}",
                "name all classes, in the order of the model's outputs",
            )
        return {name: list(classes).index(name) for name in names}, tuple(classes)
    if all(map(_COUNT.fullmatch, names)):
        return {name: int(name) for name in names}, None
    return {name: number for number, name in enumerate(sorted(names))}, tuple(sorted(names))


def _assumption(names: Sequence[str], classes: Sequence[str] | None) -> str:
    """Return what :func:`_numbered` assumes about the names of classes; empty for nothing."""
    if isinstance(classes, ModelClasses) and classes.are_positions(names):
        return (
            "the labels are numbers, and the model's classes are texts: they are taken as "
            f"positions, {_positions(classes)}"
        )
    if classes is None and not all(map(_COUNT.fullmatch, names)):
        return (
            "the labels are texts, and the model states no names of its classes: they are taken as "
            f"its classes in sorted order, {_positions(sorted(names))}; name the classes in the "
            "model's order if that is another"
        )
    return ""


def _positions(classes: Sequence[str], most: int = 5) -> str:
    """Return the first classes with their positions."""
    shown = [f"{i} {shown_argument(name)}" for i, name in enumerate(classes[:most])]
    return ", ".join([*shown, "..."] if len(classes) > most else shown)


def _read_file(path: Path, tensor: TensorInfo, scaling: Scaling) -> Array:
    suffix = path.suffix.lower()
    check_regular(path, "give a data set of files", most_bytes=_MOST_BYTES)
    if suffix == ".npy":
        return load_array(path)
    if suffix == ".bin":
        return _raw(path.read_bytes(), tensor, scaling, str(path))
    return _picture(path, tensor)


def _raw(data: bytes, tensor: TensorInfo, scaling: Scaling, what: str) -> Array:
    """Return raw little-endian elements: the input's, floats of four bytes for a quantized input,
    or bytes from 0 on where a mean or a std says what they mean.
    """
    elements = prod(tensor.shape)
    if len(data) == elements and (scaling.mean is not None or scaling.std is not None):
        return np.frombuffer(data, np.uint8)
    own = np.dtype(tensor.dtype).newbyteorder("<")
    if len(data) == elements * own.itemsize:
        return np.frombuffer(data, own)
    if len(data) == 4 * elements:
        return np.frombuffer(data, "<f4")
    raise InputError(
        f"{what} has {len(data)} bytes, and the model's {tensor.name!r} has {elements} elements",
        f"give {elements * own.itemsize} bytes, or float32",
    )


def _picture(path: Path, tensor: TensorInfo) -> Array:
    """Return the pixels of a picture: 0 to 255, of the input's size and channels."""
    Image = optional.require("PIL.Image", f"the picture {path.name}", ", or give NPY files")
    elements = prod(tensor.shape)
    try:
        with Image.open(path) as picture:
            pixels = picture.width * picture.height
            mode = next((m for m, count in _MODES.items() if count * pixels == elements), None)
            if mode is None:
                raise InputError(
                    f"{path} is {picture.width} x {picture.height} pixels, and the model's "
                    f"{tensor.name!r} has the shape {list(tensor.shape)}",
                    "resize the pictures as in training",
                )
            if picture.mode.startswith(("I", "F")):
                # Pillow would make all of them that exceed 255 white.
                raise InputError(
                    f"{path} has pixels of 16 bits or more, and a picture's are taken as 0 to 255",
                    "convert the pictures to 8 bits as in training, or give NPY files",
                )
            return np.asarray(picture.convert(mode))
    except InputError:
        raise
    except Exception as error:
        # Pillow raises arbitrary exceptions for a corrupt file.
        raise InputError(f"{path} cannot be read: {error}", "leave it out") from None


# -- MLPerf Tiny's index -------------------------------------------------------------------------


@dataclass(frozen=True)
class IndexedInput:
    """An input of MLPerf Tiny's index: bytes of a file."""

    file: str
    classes: int
    label: int
    #: Bytes of the file from ``start`` on; None: all of them.
    start: int = 0
    size: int | None = field(default=None)

    def read(self, folder: Path) -> bytes:
        """Return the bytes of the input; raise :class:`InputError` if the file cannot be read."""
        path = folder / self.file
        check_regular(path, f"see {folder / INDEX}", most_bytes=_MOST_BYTES)
        try:
            with path.open("rb") as file:
                file.seek(self.start)
                return file.read() if self.size is None else file.read(self.size)
        except (OSError, ValueError) as error:
            # ValueError: a name with a null character.
            why = getattr(error, "strerror", None) or str(error)
            raise InputError(f"cannot read {path}: {why}", f"see {folder / INDEX}") from None


def read_index(folder: Path) -> list[IndexedInput]:
    """Return the inputs that ``y_labels.csv`` lists, in its order."""
    path = folder / INDEX
    found: list[IndexedInput] = []
    for number, row in _rows(path):
        cells = [cell.strip() for cell in row]
        numbers = cells[1:]
        if len(cells) not in (3, 5) or not all(map(_COUNT.fullmatch, numbers)):
            raise InputError(
                f"{path}, line {number}: {','.join(row)!r:.80} is not FILE,CLASSES,CLASS or "
                "FILE,CLASSES,CLASS,BYTES,STRIDE",
                "take the file of MLPerf Tiny's data set",
            )
        file, (classes, label, *window) = cells[0], map(int, numbers)
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise InputError(
                f"{path}, line {number}: {file!r} lies outside", "name files beside it"
            )
        whole = IndexedInput(file, classes, label)
        found += _windows(folder, whole, *window) if window else [whole]
    return found


def _windows(folder: Path, whole: IndexedInput, size: int, stride: int) -> Iterator[IndexedInput]:
    """Yield the windows of a file of several inputs."""
    if not size or not stride:
        raise InputError(f"{folder / INDEX}: {whole.file} has windows of 0 bytes", "see the data")
    length = len(whole.read(folder))
    for start in range(0, length - size + 1, stride):
        yield replace(whole, start=start, size=size)


def _index(
    path: Path, inputs: Sequence[TensorInfo], scaling: Scaling, classes: Sequence[str] | None
) -> DataSet:
    tensor = _only_input(inputs, f"the folder {path}")
    found = read_index(path)

    clipping = _clipping()

    def sample(index: int) -> Sample:
        source = found[index]
        data = _raw(source.read(path), tensor, scaling, source.file)
        return {
            tensor.name: _fitted(data, tensor, scaling, clipping, f"input {index}, {source.file}")
        }

    labels = np.array([source.label for source in found], np.int64)
    names = None if classes is None else tuple(classes)
    sources = [s.file for s in found]
    return DataSet(_Lazy(len(found), sample), labels, sources, names, clipping=clipping)


# -- CSV -----------------------------------------------------------------------------------------


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of a CSV file that are not blank, with their numbers from 1.

    A line of separators alone is not blank: it is one whose values are missing.
    """
    check_regular(path, "give an NPZ file or a folder", most_bytes=_MOST_CSV_BYTES)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            for row in reader:
                if len(row) > 1 or any(cell.strip() for cell in row):
                    yield reader.line_num, row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}", "give a CSV file in UTF-8") from None


def _csv(
    path: Path,
    inputs: Sequence[TensorInfo],
    scaling: Scaling,
    classes: Sequence[str] | None,
    labels: str | None,
    values: int,
) -> DataSet:
    tensor = _only_input(inputs, str(path))
    rows = list(_rows(path))
    if not rows:
        raise InputError(f"{path} is empty", "give one sample a line")
    header = rows.pop(0)[1] if _is_header(rows[0][1]) else None
    width = len(header or (rows[0][1] if rows else ()))
    if width == 1:
        text = (header or rows[0][1])[0]
        other = next((f", not {mark!r}" for mark in ";\t|" if mark in text), "")
        raise InputError(
            f"{path} has one column, {text!r:.60}, and a sample has values and a label",
            f"separate the values of a line by commas{other}",
        )
    columns = _label_columns(path, header, width, labels, values)
    for number, row in rows:
        if len(row) != width:
            raise InputError(
                f"{path}, line {number}: {len(row)} values, and the first line has {width}",
                "give as many values in every line",
            )
    others = [column for column in range(width) if column not in columns]
    if header is None:
        # Now, whether or not its sample is drawn: a header with a number or no name is reported.
        _numbers(path, rows[0], others, header)

    @cache
    def are_integers() -> bool:
        """Whether the numbers may be the integers of a quantized input; no option says it."""
        is_open = tensor.scale is not None and scaling == Scaling()
        return is_open and _are_whole(rows, others)

    clipping = _clipping()

    def sample(index: int) -> Sample:
        array = _numbers(path, rows[index], others, header)
        if are_integers():
            with np.errstate(invalid="ignore"):  # of numbers beyond the type
                array = array.astype(np.int64)
        return {
            tensor.name: _fitted(array, tensor, scaling, clipping, f"{path}, line {rows[index][0]}")
        }

    given, names, assumption = _csv_labels(path, rows, columns, header, values, classes)
    sources = [f"line {n}" for n, _ in rows]
    return DataSet(
        _Lazy(len(rows), sample), given, sources, names, assumption=assumption, clipping=clipping
    )


def _are_whole(rows: Sequence[tuple[int, Sequence[str]]], columns: Sequence[int]) -> bool:
    """Return whether every number is written as an integer, without a point or an exponent."""
    cells = (row[column].strip().lstrip("+-") for _, row in rows for column in columns)
    return all(cell.isascii() and cell.isdecimal() for cell in cells)


def _is_header(row: Sequence[str]) -> bool:
    """Return whether a first line names the columns: every cell has a text, and none a number.

    A line with a number is a sample, whose other cells may be mistyped: it must not get lost.
    """
    return all(cell.strip() and not _is_number(cell) for cell in row)


def _is_number(text: str) -> bool:
    return _number(text) is not None


def _number(text: str) -> float | None:
    """Return the decimal number that a text is, also one that is not finite (nan, inf); or None."""
    # Python reads 1_0 as 10; in a file it is the name of a class.
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _numbers(
    path: Path,
    line: tuple[int, Sequence[str]],
    columns: Sequence[int],
    header: Sequence[str] | None,
) -> Array:
    """Return the numbers in some columns of a line; InputError for a cell that is none."""
    found = []
    for column in columns:
        value = _number(line[1][column])
        if value is None or not math.isfinite(value):
            raise _wrong_cell(path, line, column, header, "no finite decimal number")
        found.append(value)
    return np.array(found)


def _wrong_cell(
    path: Path,
    line: tuple[int, Sequence[str]],
    column: int,
    header: Sequence[str] | None,
    why: str,
) -> InputError:
    number, row = line
    name = "" if header is None else f" ({header[column].strip()!r:.40})"
    of_first = header is None and number == 1
    first = "; a first line of names has a text in each column, and no number" * of_first
    return InputError(
        f"{path}, line {number}, column {column}{name}: {row[column]!r:.40} is {why}",
        "give numbers such as 2, -0.5 or 1e-3, and fill in missing ones as in training; columns "
        f"are counted from 0{first}",
    )


def _label_columns(
    path: Path, header: Sequence[str] | None, width: int, labels: str | None, values: int
) -> list[int]:
    """Return the columns of the labels: named ones, or the last."""
    names = [name.strip() for name in header or ()]
    if labels is None:
        lower = [name.lower() for name in names]
        known = [lower.index(name) for name in LABEL_NAMES if name in lower]
        return known[:1] or list(range(max(0, width - max(1, values)), width))
    columns = []
    for word in labels.split(","):
        if word in names:
            columns.append(names.index(word))
        elif word.isascii() and word.isdecimal() and int(word) < width:
            columns.append(int(word))
        else:
            raise InputError(
                f"{path} has no column {word!r}{nearest(word, names)}",
                f"give a name of the first line, or a number from 0 to {width - 1}",
            )
    return columns


def _csv_labels(
    path: Path,
    rows: Sequence[tuple[int, list[str]]],
    columns: Sequence[int],
    header: Sequence[str] | None,
    values: int,
    classes: Sequence[str] | None,
) -> tuple[Array, tuple[str, ...] | None, str]:
    """Return the labels, the names of their classes, and what was assumed about them."""
    words = [row[columns[0]].strip() for _, row in rows]
    if not values and (classes is not None or not all(map(_is_number, words))):
        for line, word in zip(rows, words, strict=True):
            if not word:
                raise _wrong_cell(path, line, columns[0], header, "no class")
        distinct = sorted(set(words))
        numbers, names = _numbered(distinct, classes, str(path))
        labels = np.array([numbers[word] for word in words], np.int64)
        return labels, names, _assumption(distinct, classes)
    if not values and len(columns) != 1:
        raise InputError(
            f"{path} has {len(columns)} columns of labels, and a class is one", "name one column"
        )
    found = np.array([_numbers(path, line, columns, header) for line in rows])
    return _checked_labels(found if values else found.reshape(-1), values, str(path)), None, ""
