"""The models of ``keras_models/models.tar.xz``: networks of Keras by TensorFlow's converter.

``keras_models/convert.py`` makes them; ``keras_models/README.md`` says what they are for.
"""

from __future__ import annotations

import functools
import json
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import hil
import hilc
import hilc.host
from hil import verify
from hil.board import Board
from hil.oracle import reference_of
from hil.verify import Report
from hil.verify.samples import random_sample
from hilc.artifact.library import ModelLibrary, TensorInfo
from hilc.errors import ModelError
from hilc.frontends import load_model
from hilc.host import HostModel
from hilc.ir import Array, Numerics
from hilc.references import get_reference, numerics_of_reference

_FOLDER = Path(__file__).resolve().parents[2] / "keras_models"
TYPES = ("int8", "int16", "float32")
BATCHES = ("open", "fixed")

#: What differs from its reference, and why. A file that becomes equal must go.
DIFFERENT: Mapping[str, str] = {}


@dataclass(frozen=True)
class KerasFile:
    network: str
    #: Of the activations: int8, int16 (weights are int8) or float32.
    type: str
    #: ``open`` or ``fixed``.
    batch: str

    @classmethod
    def named(cls, name: str) -> KerasFile:
        """The file of that :attr:`name`."""
        return cls(*name.split("."))

    @property
    def name(self) -> str:
        return f"{self.network}.{self.type}.{self.batch}"

    @property
    def identifier(self) -> str:
        """The name as modules are named."""
        return self.name.replace(".", "_")

    def has_form(self, form: str) -> bool:
        """Whether a type, a batch, or both with a dot between them are this file's."""
        return {*form.split(".")} <= {self.type, self.batch}

    @property
    def data(self) -> bytes:
        return _archive()[f"{self.name}.tflite"]

    @property
    def operators(self) -> Mapping[str, int]:
        """How often each operator stands in the file."""
        operators: dict[str, int] = _entry(self)["operators"]
        return operators

    def samples(self, inputs: Sequence[TensorInfo], count: int) -> list[dict[str, Array]]:
        """Random inputs, those that choose rows of a table among its rows."""
        samples = [random_sample(inputs, 1, index) for index in range(count)]
        limits = listing()[self.network]["indices"]
        for index, sample in enumerate(samples):
            rng = np.random.default_rng([2, index])
            for name, array in sample.items():
                for limited, limit in limits.items():
                    # The converter calls it serving_default_NAME:0.
                    if limited in name:
                        sample[name] = rng.integers(0, limit, array.shape).astype(array.dtype)
        return samples


@functools.cache
def listing() -> Mapping[str, Any]:
    """What ``convert.py`` wrote down of each network."""
    networks: dict[str, Any] = json.loads((_FOLDER / "models.json").read_text())["networks"]
    return networks


@functools.cache
def files() -> tuple[KerasFile, ...]:
    return tuple(
        KerasFile(network, *form.split("."))
        for network, entry in listing().items()
        for form in entry["files"]
    )


def one_of_each(networks: Iterable[str]) -> list[KerasFile]:
    """One file of each network, so that all types and batches come about equally often."""
    chosen = []
    for number, network in enumerate(networks):
        own = [file for file in files() if file.network == network]
        chosen += own[number % max(1, len(own)) :][:1]
    return chosen


def refused_operators(error: ModelError) -> tuple[str, ...]:
    """The operators that a refusal names; ``?`` where it names none."""
    return tuple(dict.fromkeys(re.findall(r"\b\d+ \((\w+)\)", error.fact))) or ("?",)


@functools.cache
def refused_by_tflm(file: KerasFile) -> str | None:
    """The operator because of which TFLM refuses a file; the compiler must accept it."""
    return _refused_by("tflm", file)


@functools.cache
def reference_of_file(file: KerasFile) -> str:
    """``tflm``, ``litert-ref`` for what TFLM refuses, ``hilc`` for what both refuse."""
    if not refused_by_tflm(file):
        return "tflm"
    return "hilc" if _refused_by("litert-ref", file) else "litert-ref"


def _refused_by(reference: str, file: KerasFile) -> str | None:
    try:
        numerics = numerics_of_reference(reference) or Numerics.TFLM
        get_reference(reference, load_model(file.data, None, numerics), file.data)
    except ModelError as error:
        (operator,) = re.findall(r"opcode '(\w+)'|$", error.fact)[:1]
        return (
            operator
            or re.findall(r"(?:Node|Micro (?:gives|computes)) (\w+)|$", error.fact)[0]
            or "?"
        )
    return None


def compiled(file: KerasFile, **options: Any) -> ModelLibrary:
    """The file compiled to compute as its reference does; ModelError for what is refused."""
    load_model(file.data)
    reference = "litert-ref" if reference_of_file(file) == "litert-ref" else "tflm"
    return hilc.compile(file.data, name=file.identifier, reference=reference, **options)


def compare_on_host(
    libraries: Mapping[KerasFile, ModelLibrary], folder: Path, samples: int = 3
) -> Iterator[tuple[KerasFile, Report]]:
    """Run generated C in this process, all of it from one shared library in ``folder``."""
    path = hilc.host.export_library(hilc.merge(list(libraries.values())), folder / "keras.so")
    factory = hilc.host.load_module(path)
    for file, library in libraries.items():
        (module,) = library.modules
        with factory[file.identifier](hilc.host.cpu(0)) as executor:
            assert isinstance(executor.model, HostModel)
            yield (
                file,
                verify(
                    executor.model,
                    file.samples(module.inputs, samples),
                    reference_of(library, module, reference_of_file(file)),
                    board="this machine",
                    per_layer=True,
                ),
            )


def images(
    libraries: Mapping[KerasFile, ModelLibrary], board: Board
) -> Iterator[dict[KerasFile, ModelLibrary]]:
    """Share libraries out among images that a board has room for; what none holds is left out."""
    room = sum(region.size for region in board.regions("flash")[:1]) * 3 // 4 - _FIRMWARE
    image: dict[KerasFile, ModelLibrary] = {}
    used = 0
    for file, library in libraries.items():
        (module,) = library.modules
        needed = _CODE + module.constants_bytes
        if image and (used + needed > room or len(image) == _IN_IMAGE):
            yield image
            image, used = {}, 0
        if needed <= room:
            image[file] = library
            used += needed
    if image:
        yield image


#: Bytes of code of a model, more than any takes beside its constants, and of the firmware.
_CODE, _FIRMWARE = 24_000, 40_000
_IN_IMAGE = 24


def compare_on_board(
    libraries: Mapping[KerasFile, ModelLibrary], board: Board, samples: int = 3
) -> Iterator[tuple[KerasFile, Report]]:
    """Run the models of an image on a board, one after the other."""
    with hil.open(board, *libraries.values(), workspace="shared") as device:
        for file, library in libraries.items():
            (module,) = library.modules
            yield (
                file,
                verify(
                    device[module.name],
                    file.samples(module.inputs, samples),
                    reference_of(library, module, reference_of_file(file)),
                    board=board.name,
                ),
            )


def _entry(file: KerasFile) -> Any:
    return listing()[file.network]["files"][f"{file.type}.{file.batch}"]


@functools.cache
def _archive() -> Mapping[str, bytes]:
    with tarfile.open(_FOLDER / "models.tar.xz") as archive:
        return {
            member.name: file.read()
            for member in archive.getmembers()
            if (file := archive.extractfile(member))
        }
