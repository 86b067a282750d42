"""Damaged model files: each one loads as a valid, runnable graph or raises one ModelError, in time.

The damage is seeded, so a case that fails can be run again by its number. Most of it goes where the
structure is, not into the weights, which take any byte.
"""

from __future__ import annotations

import functools
import resource
import signal
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
import tflite
from campaigns import PARTS, sampled
from flatbuffers import flexbuffers
from models import FLOAT_MODELS, INT8_MODELS, model_path
from odd_models import ODD_MODELS
from single_op import KINDS, random_op
from small_models import SMALL_MODELS
from tflite_builder import ModelBuilder

import hilc
import hilc.target
from hilc.errors import ModelError
from hilc.frontends import load_model
from hilc.interpreter import run
from hilc.ir import Array, Graph
from hilc.ops.verify import verify
from hilc.transforms import run_passes

#: Of processor time: it ends what hangs.
_LIMIT_S = 120.0
#: What loading and running a damaged file may take of memory beyond what the process has.
_MEMORY_LIMIT_BYTES = 1 << 30

_CASES_PER_REAL_MODEL = 32
_CASES_PER_SMALL_MODEL = 50

_NASTY_WORDS = (0, 1, 2, 4, 8, 0x7F, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFC, 0x40000000)


@functools.cache
def _model(name: str) -> bytes:
    made = {**SMALL_MODELS, **ODD_MODELS}
    return made[name]() if name in made else model_path(name).read_bytes()


@functools.cache
def _structure(name: str) -> Array:
    """Places of the bytes that are structure: all but the long runs of constant data."""
    data = _model(name)
    is_structure = np.ones(len(data), bool)
    model = tflite.Model.GetRootAs(data, 0)
    for buffer in map(model.Buffers, range(model.BuffersLength())):
        if buffer.DataLength() >= 64:
            start = buffer._tab.Vector(buffer._tab.Offset(4))
            is_structure[start : start + buffer.DataLength()] = False
    return np.flatnonzero(is_structure)


def damage(data: bytes, places: Array, seed: int) -> bytes:
    """``data`` with damage number ``seed``, mostly at one of ``places``."""
    rng = np.random.default_rng(seed)
    file = bytearray(data)
    kind = seed % 8
    if kind in (0, 1):
        for place in rng.choice(places, rng.integers(1, 4)):
            file[place] ^= 1 << rng.integers(8)
    elif kind == 2:
        for place in rng.choice(places, rng.integers(1, 20)):
            file[place] = rng.integers(256)
    elif kind in (3, 4):
        place = int(rng.choice(places)) // 4 * 4
        file[place : place + 4] = struct.pack("<I", rng.choice(_NASTY_WORDS))
    elif kind == 5:
        del file[int(rng.choice(places)) :]
    elif kind == 6:
        start = int(rng.choice(places))
        length = int(rng.integers(1, 64))
        file[start : start + length] = bytes([rng.choice([0, 0xFF])]) * length
    else:
        source, target = (int(p) for p in rng.choice(places, 2))
        file[target : target + 16] = file[source : source + 16]
    return bytes(file)


@contextmanager
def _within(limit_s: float) -> Iterator[None]:
    def late(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"still busy after {limit_s} s")

    # Of this process: what others have of the cores is not the file's doing.
    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.fixture
def limited_memory() -> Iterator[None]:
    """An allocation far beyond what the file can need fails, instead of stalling the machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + _MEMORY_LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _inputs(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    tensors = [graph.tensors[name] for name in graph.inputs]
    return {t.name: rng.integers(0, 2, t.shape).astype(t.dtype) for t in tensors}


def _load_and_run(data: bytes) -> bool:
    """Whether the file was accepted; every failure but a ModelError propagates."""
    with _within(_LIMIT_S):
        try:
            graph = load_model(data)
        except ModelError as error:
            if not error.fact.strip() or "\n" in error.fact:
                raise ValueError(f"not one clear line: {error.fact!r}") from error
            if not isinstance(error.__cause__, ModelError | None):
                raise ValueError(f"no check foresaw this: {error.fact}") from error
            return False
        verify(graph)
    # A weight that became infinite overflows where a sane one would not.
    with _within(_LIMIT_S), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        optimized = run_passes(graph)
        inputs = _inputs(graph)
        outputs, same = run(graph, inputs), run(optimized, inputs)
        for name, value in outputs.items():
            np.testing.assert_array_equal(same[name], value)
    return True


def _load_run_and_compile(data: bytes) -> bool:
    accepted = _load_and_run(data)
    if accepted:
        with _within(_LIMIT_S):
            hilc.compile(data, cpu="cortex-m4")
    return accepted


def _check(name: str, seeds: range, examine: Callable[[bytes], bool]) -> None:
    data, places = _model(name), _structure(name)
    accepted = 0
    for seed in seeds:
        try:
            accepted += examine(damage(data, places, seed))
        except Exception as error:
            raise AssertionError(f"damage {seed} of {name}: {error!r}") from error
    # Damage that nothing notices, or that everything notices, tests nothing.
    assert 0 < accepted < len(seeds)


@pytest.mark.usefixtures("limited_memory")
@pytest.mark.parametrize(
    "name", sampled([*INT8_MODELS, *FLOAT_MODELS], keep=["ad", "kws", "kws_float"])
)
def test_damaged_real_model(name: str) -> None:
    _check(name, range(_CASES_PER_REAL_MODEL), _load_and_run)


@pytest.mark.usefixtures("limited_memory")
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", [*SMALL_MODELS, "open_batch"])
def test_damaged_small_model(name: str, part: int) -> None:
    first = part * _CASES_PER_SMALL_MODEL
    _check(name, range(first, first + _CASES_PER_SMALL_MODEL), _load_run_and_compile)


@pytest.mark.usefixtures("limited_memory")
@pytest.mark.parametrize("name", SMALL_MODELS)
def test_every_truncation_is_refused(name: str) -> None:
    data = _model(name)
    # The converter's last bytes are alignment; what is cut before the last table is always missed.
    for length in range(0, len(data) - 16, 7):
        with _within(_LIMIT_S), pytest.raises(ModelError):
            load_model(data[:length])


@pytest.mark.full
@pytest.mark.usefixtures("limited_memory")
def test_every_word_of_a_small_model_set_large() -> None:
    data = _model("floats")
    for place in range(0, len(data) - 4, 4):
        file = data[:place] + struct.pack("<I", 0x7FFFFFFF) + data[place + 4 :]
        try:
            _load_run_and_compile(file)
        except Exception as error:
            raise AssertionError(f"word at byte {place}: {error!r}") from error


def _patched(data: bytes, slot: int, entry: int, value: int) -> bytes:
    """The file with a number in a vector of its first operator; entry -1 is the length."""
    operator = tflite.Model.GetRootAs(data, 0).Subgraphs(0).Operators(0)
    file = bytearray(data)
    place = operator._tab.Vector(operator._tab.Offset(4 + 2 * slot)) + 4 * entry
    struct.pack_into("<i", file, place, value)
    return bytes(file)


def test_an_operator_without_its_output_is_refused() -> None:
    """-1 is an absent input; as an output it was the last tensor, or memory before the list."""
    b = ModelBuilder()
    b.input("x", (1, 4), "int8", scale=0.5, zero_point=1)
    b.output("y", (1, 4), "int8", scale=0.5, zero_point=1)
    b.op("RELU", ("x",), ("y",))
    assert load_model(b.build()).outputs == ("y",)
    with pytest.raises(ModelError, match="tensor number -1; the model has 2"):
        load_model(_patched(b.build(), 2, 0, -1))


def test_custom_options_beyond_the_file_are_refused() -> None:
    """They were no part of the structure that is checked before anything is read."""
    rng = np.random.default_rng(1)
    data = next(random_op(rng, op, dtype).tflite() for op, dtype in KINDS if op == "SIGNAL_RFFT")
    load_model(data)
    with pytest.raises(ModelError, match="custom_options has 2147483647 entries") as refused:
        load_model(_patched(data, 5, -1, 0x7FFFFFFF))
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("number", [3, 9, 0x20000000])
def test_a_buffer_that_is_not_listed_is_refused(number: int, dtype: str) -> None:
    """What lies behind the list was taken for the place of a buffer, or was outside of the file."""
    b = ModelBuilder()
    b.input("x", (1, 4), "float32")
    b.const("c", np.ones((1, 4), dtype))
    b.output("y", (1, 4), "float32")
    b.op("ADD", ("x", "c"), ("y",))
    file = bytearray(b.build())
    model = tflite.Model.GetRootAs(file, 0)
    subgraph = model.Subgraphs(0)
    tensors = [subgraph.Tensors(i) for i in range(subgraph.TensorsLength())]
    (tensor,) = [one for one in tensors if one.Buffer()]
    struct.pack_into("<I", file, tensor._tab.Pos + tensor._tab.Offset(8), number)
    told = f"'c' has buffer number {number}; the file has {model.BuffersLength()}"
    with pytest.raises(ModelError, match=told):
        load_model(bytes(file))


@pytest.mark.parametrize(
    ("code", "options", "told"),
    [
        ("CIRCULAR_BUFFER", None, "no map of values by their names"),
        ("CIRCULAR_BUFFER", 3, "no map of values by their names"),
        ("SignalRfft", [8], "lack fft_length"),
        ("SignalRfft", {"fft_length": None}, "lack fft_length"),
        ("SignalDelay", {"delay_length": [4]}, r"delay_length = \[4\] \(accepted: int\)"),
        ("SignalDelay", {"delay_length": {"of": 4}}, r"delay_length = \{'of': 4\}"),
        ("SignalDelay", {"delay_length": 4.0}, r"delay_length = 4.0 \(accepted: int\)"),
        ("SignalDelay", {"delay_length": list(range(999))}, r"\[0, 1, 2, 3, 4, 5, \.\.\.\]"),
    ],
)
def test_options_that_are_no_map_are_refused(code: str, options: object, told: str) -> None:
    b = ModelBuilder()
    b.input("x", (1, 8), "int16")
    b.output("y", (1, 10), "int16")
    b.op(
        "CUSTOM", ("x",), ("y",), custom_code=code, custom_options=bytes(flexbuffers.Dumps(options))
    )
    with pytest.raises(ModelError, match=told) as refused:
        load_model(b.build())
    assert "inconsistent" not in refused.value.fact


def test_a_name_too_long_for_files_names_no_core() -> None:
    assert hilc.target.find_cpu("a" * 5000) is None
