"""Compare a firmware of other people, layer by layer, by the tensors that it taps (``hil_tap.h``).

The reference computes what the firmware's own inputs give. A tapped tensor is matched with the
model's by its name; without one by order, type and size. Where several of the model's tensors may
be meant, it is the one whose bytes are equal, else the first that is the output of a layer of this
compiler, whose layers include the activations behind them as those of other runtimes do.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hil.link.line import Link
from hil.link.protocol import Tensors
from hil.link.taps import ALL_LAYERS, TappedRun, TappedTensor, select_layers, tapped_runs
from hil.results.verify import Diagnosis
from hil.verify.comparison import (
    DistinctSamples,
    LayerReport,
    Oracle,
    Report,
    TensorComparison,
)
from hil.verify.diagnosis import (
    NO_EVIDENCE,
    PAIRS_MAX,
    Evidence,
    Pair,
    diagnose,
)
from hil.verify.samples import MOST_SAMPLES, Sample, wants_more
from hil.verify.sensitivity import Sensitivity
from hilc.artifact.library import Layer, Module, TensorInfo
from hilc.errors import InputError
from hilc.ir import Array
from hilc.support.arguments import typed

#: Seconds without a whole inference after which the firmware counts as silent.
WAIT_S = 30.0
#: Inferences of which the bytes of the first layer that differs are fetched.
_FETCHED = 3


@typed
def verify_tapped(
    link: Link,
    module: Module,
    oracle: Oracle,
    samples: int | None = None,
    *,
    checksums: bool = False,
    wait_s: float = WAIT_S,
) -> Report:
    """Return the report of ``samples`` inferences that a firmware taps at ``link``; without a
    number of those that arrive in about five seconds, 10 to 100.

    ``module`` is the model, compiled for any core; ``oracle`` computes its tensors. With
    ``checksums`` the firmware is asked to send no bytes of layers but those of the first that
    differs, which a slow line needs; layers of floats, which may differ in a rounding, are then
    compared bit by bit. Raise :class:`~hil.errors.LinkError` if no inference arrives, and
    :class:`~hil.errors.InputError` if the firmware's inputs are not the model's.
    """
    start = time.monotonic()
    if checksums and not select_layers(link, 0, 0):
        raise InputError(
            f"the firmware at {link.url} does not let the host choose its layers",
            "give the bytes that arrive to hil_tap_receive, or drop --checksums",
        )
    comparison = _Comparisons(module, oracle)
    for run in tapped_runs(link, wait_s):
        comparison.add(run)
        count = comparison.runs
        if count >= (samples or MOST_SAMPLES) or not (samples or wants_more(count, start)):
            break
    suspect = comparison.suspect
    if checksums and suspect is not None:
        _fetch(link, comparison, suspect, wait_s)
    return comparison.report(link.url, time.monotonic() - start)


def _fetch(link: Link, comparison: _Comparisons, suspect: _Tap, wait_s: float) -> None:
    """Compare the bytes of the first layer that differs in a few more inferences."""
    select_layers(link, suspect.key[1], 1)
    deadline = time.monotonic() + wait_s
    fetched = 0
    # Those that were begun before the choice arrive first, without these bytes.
    for run in tapped_runs(link, wait_s):
        if any(t.data is not None for t in run.tensors if _key(t) == suspect.key):
            comparison.add(run)
            fetched += 1
        if fetched >= _FETCHED or time.monotonic() > deadline:
            break
    select_layers(link, *ALL_LAYERS)


#: List, layer and index of a tapped tensor.
_Key = tuple[Tensors, int, int]


def _key(tensor: TappedTensor) -> _Key:
    return (tensor.list, tensor.layer, tensor.index)


@dataclass
class _Tap:
    """A tap point over all inferences."""

    key: _Key
    name: str
    #: The model's tensor; None for one that it does not have, which is not compared.
    comparison: TensorComparison | None
    #: The layer of this compiler that makes it, if any.
    layer: Layer
    pairs: list[Pair] = field(default_factory=list)
    #: Bytes by the checksum of all inputs: the same inputs must give the same bytes.
    known: dict[int, bytes] = field(default_factory=dict)
    varying: Array | None = None

    @property
    def differs(self) -> bool:
        return self.comparison is not None and self.comparison.mismatches > 0

    def report(self) -> LayerReport:
        tensors = (self.comparison.report(),) if self.comparison else ()
        missing = () if self.comparison else (self.name,)
        return LayerReport(self.key[1], self.name, self.layer.op, tensors, missing)


class _Comparisons:
    def __init__(self, module: Module, oracle: Oracle) -> None:
        self._module = module
        self._oracle = oracle
        self._taps: dict[_Key, _Tap] = {}
        #: Inferences that were compared.
        self.runs = 0
        self._inputs = DistinctSamples()
        self._model = module.name

    @property
    def suspect(self) -> _Tap | None:
        """The tap point of the first layer that differs."""
        return next((tap for tap in self._layers() if tap.differs), None)

    def _layers(self) -> list[_Tap]:
        return sorted(
            (tap for tap in self._taps.values() if tap.key[0] == Tensors.LAYER_OUTPUT),
            key=lambda tap: tap.key,
        )

    def add(self, run: TappedRun) -> None:
        sample = _inputs(run, self._module)
        self._inputs.add(sample)
        expected = self._oracle.values(self.runs, sample)
        if not self.runs:
            self._taps = _matched(run, self._module, expected, self._oracle.sensitivity)
        if self._oracle.sensitivity is not None:
            self._oracle.sensitivity.follow(sample, not self.runs)
        self._check_taps(run)
        inputs = zlib.crc32(b"".join(tensor.data or b"" for tensor in run.of(Tensors.INPUT)))
        for tensor in run.tensors:
            tap = self._taps.get(_key(tensor))
            if tap is not None and tap.comparison is not None:
                whole = np.asarray(expected[tap.comparison.tensor.name])
                _compare(tap, tap.comparison, self.runs, whole, tensor, inputs)
        self._model = run.model or self._model
        self.runs += 1

    def _check_taps(self, run: TappedRun) -> None:
        """Raise InputError unless a run taps what the first one did, and in the model's sizes."""
        tapped = {_key(tensor): tensor for tensor in run.tensors if tensor.list != Tensors.INPUT}
        differing = [
            *(f"lacks {_shown(key)} ({tap.name!r})" for key, tap in self._taps.items()
              if key not in tapped),
            *(f"taps {_shown(key)} ({tensor.name!r}) as well" for key, tensor in tapped.items()
              if key not in self._taps),
        ]  # fmt: skip
        if differing:
            raise InputError(
                f"inference {self.runs} of the firmware {differing[0]}, unlike the first one",
                "call the same hil_tap_layer and hil_tap_output, with the same indices, in each "
                "inference",
            )
        for key, tensor in tapped.items():
            comparison = self._taps[key].comparison
            if comparison is not None:
                _check_kind(tensor, comparison.tensor, self._module)

    def report(self, url: str, seconds: float) -> Report:
        outputs = [tap for tap in self._taps.values() if tap.key[0] == Tensors.OUTPUT]
        if not any(tap.comparison for tap in self._taps.values()):
            raise InputError(
                f"the firmware at {url} taps no tensor of {self._module.name!r} but its inputs, so "
                "nothing was compared",
                "call hil_tap_layer for each layer, or hil_tap_output for each output",
            )
        return Report(
            model=self._model,
            board=url,
            samples=self.runs,
            reference=self._oracle.name,
            reference_description=self._oracle.description,
            outputs=tuple(tap.comparison.report() for tap in outputs if tap.comparison),
            layers=tuple(tap.report() for tap in self._layers()),
            seconds=seconds,
            fallback=self._oracle.fallback,
            diagnosis=self._diagnosis(),
            independent=self._oracle.independent,
            # A firmware may run the same input again and again.
            independent_samples=self._inputs.distinct,
        )

    def _diagnosis(self) -> Diagnosis | None:
        tap = self.suspect
        if tap is None or tap.comparison is None or not tap.pairs:
            return None
        before = [other for other in self._layers() if other.key < tap.key]
        unknown: list[str] = []
        for other in before:
            unknown = [*unknown, other.name] if other.comparison is None else []
        evidence = NO_EVIDENCE if tap.varying is None else Evidence(varying=tap.varying)
        tensor = tap.comparison.tensor
        return diagnose(tap.key[1], tap.layer, tensor, tap.pairs, evidence, unknown)


def _inputs(run: TappedRun, module: Module) -> Sample:
    """Return the inputs of an inference, which the firmware has tapped before it ran."""
    tapped = run.of(Tensors.INPUT)
    sample: dict[str, Array] = {}
    for index, info in enumerate(module.inputs):
        named = [tensor for tensor in tapped if tensor.name == info.name]
        found = named or [tensor for tensor in tapped if tensor.index == index]
        if not found:
            raise InputError(
                f"the firmware taps no input {index} ({info.name!r}) of {module.name!r}",
                "call hil_tap_input for each input, between hil_tap_begin and the inference",
            )
        tensor = found[0]
        _check_kind(tensor, info, module)
        if tensor.data is None:
            raise InputError(
                f"the bytes of the firmware's input {index} arrived damaged",
                "lower the baud rate, or check that nothing else writes into the frames",
            )
        little_endian = np.dtype(info.dtype).newbyteorder("<")
        values = np.frombuffer(tensor.data, little_endian).astype(info.dtype)
        sample[info.name] = values.reshape(info.shape)
    return sample


def _shown(key: _Key) -> str:
    which, layer, index = key
    return f"output {index}" if which == Tensors.OUTPUT else f"output {index} of layer {layer}"


def _check_kind(tensor: TappedTensor, info: TensorInfo, module: Module) -> None:
    if (tensor.dtype, tensor.nbytes) != (info.dtype, info.nbytes):
        what = f"input {tensor.index}" if tensor.list == Tensors.INPUT else _shown(_key(tensor))
        raise InputError(
            f"the firmware's {what} is {tensor.dtype} in {tensor.nbytes} bytes, {info.name!r} of "
            f"{module.name!r} is {info.dtype} in {info.nbytes}",
            "compare with the model that the firmware runs",
        )


# -- whose tensor a tap is ------------------------------------------------------------------------


def _matched(
    run: TappedRun,
    module: Module,
    expected: Mapping[str, Array],
    sensitivity: Sensitivity | None,
) -> dict[_Key, _Tap]:
    made = {info.name: (info, layer) for layer in module.layers for info in layer.outputs}
    inputs = {info.name for info in module.inputs}
    names = [name for name in expected if name not in inputs]
    place = 0
    taps: dict[_Key, _Tap] = {}
    for tensor in run.tensors:
        if tensor.list == Tensors.INPUT:
            continue
        if tensor.list == Tensors.OUTPUT:
            name: str | None = _output_name(tensor, module)
        else:
            name = _layer_name(tensor, names[place:], expected, made)
            place = names.index(name) + 1 if name is not None else place
        shown = tensor.name or name or f"layer {tensor.layer}"
        info, layer = made.get(name or "", (None, None))
        if name is not None and info is None:
            info = _info(name, np.asarray(expected[name]))
        # A layer that only the other runtime has.
        layer = layer or Layer(shown, "", "", (), (), macs=0, input_count=0)
        comparison = None if info is None else TensorComparison(info, sensitivity)
        taps[_key(tensor)] = _Tap(_key(tensor), shown, comparison, layer)
    return taps


def _output_name(tensor: TappedTensor, module: Module) -> str:
    names = [info.name for info in module.outputs]
    if tensor.name in names:
        return tensor.name
    if tensor.index >= len(names):
        raise InputError(
            f"the firmware taps output {tensor.index} ({tensor.name!r}), and {module.name!r} has "
            f"{len(names)}: {', '.join(map(repr, names))}",
            "compare with the model that the firmware runs, or number its outputs from 0 in "
            "hil_tap_output",
        )
    return names[tensor.index]


def _layer_name(
    tensor: TappedTensor,
    names: Sequence[str],
    expected: Mapping[str, Array],
    made: Mapping[str, object],
) -> str | None:
    """Return the tensor of the model that a layer's tap is, among the ``names`` that may follow."""
    alike = [name for name in names if _is_alike(np.asarray(expected[name]), tensor)]
    if tensor.name in alike:
        return tensor.name
    equal = [name for name in alike if _crc(np.asarray(expected[name])) == tensor.crc]
    ours = [name for name in alike if name in made]
    return next(iter([*equal, *ours, *alike]), None)


def _is_alike(array: Array, tensor: TappedTensor) -> bool:
    return (array.dtype.name, array.nbytes) == (tensor.dtype, tensor.nbytes)


def _crc(array: Array) -> int:
    return zlib.crc32(array.astype(array.dtype.newbyteorder("<")).tobytes())


def _info(name: str, array: Array) -> TensorInfo:
    """Return the description of a tensor that no layer of this compiler makes."""
    return TensorInfo(name, "t", array.shape, array.dtype.name, None, None, array.nbytes, None)


# -- comparison -----------------------------------------------------------------------------------


def _compare(
    tap: _Tap,
    comparison: TensorComparison,
    run: int,
    whole: Array,
    tensor: TappedTensor,
    inputs: int,
) -> None:
    if tensor.data is None:
        # How many elements differ is not known: one at least.
        comparison.mismatches = max(comparison.mismatches, int(_crc(whole) != tensor.crc))
        return
    little_endian = whole.dtype.newbyteorder("<")
    got = np.frombuffer(tensor.data, little_endian).astype(whole.dtype).reshape(whole.shape)
    earlier = tap.known.setdefault(inputs, tensor.data)
    if earlier != tensor.data:
        before = np.frombuffer(earlier, little_endian).reshape(whole.shape)
        tap.varying = before != got if tap.varying is None else tap.varying | (before != got)
    pair = comparison.add(run, whole, got)
    if pair is not None and len(tap.pairs) < PAIRS_MAX:
        tap.pairs.append(pair)
