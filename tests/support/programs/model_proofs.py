"""Proofs about the portable kernels with the parameters of one model's layers.

Of every layer, with every portable kernel that can compute it:

* the addresses and the way through the loops are the same for all data, as ``address_traces``
  shows, so that a run between the bounds of its arrays is one for all inputs
  (``kernel_runner``: blocks of exactly the promised size under the sanitizers);
* every sum of every channel gives the specification's output, without overflow
  (``accumulator_proofs``); operators with few inputs run on all of them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from accumulator_proofs import Prover, built, is_known
from address_traces import dependences
from c_parameters import c_parameters
from kernel_checks import Check, check
from kernel_runner import Case

from hilc.ir import Array, Graph, Node, Tensor
from hilc.lowering import candidates
from hilc.lowering.kernels import KernelCall
from hilc.numerics.fixed_point import leading_zeros, reciprocal
from hilc.numerics.requantize import rounding_divide_by_pot
from hilc.ops import OPS
from hilc.ops.softmax import SUM_BITS, SoftmaxAttributes, exponentials
from hilc.support.resources import data_dir
from hilc.target import Cpu, get_cpu

_INCLUDE = data_dir("runtime") / "include"
_LIMIT_S = 600
#: Kernels in which an input decides which constant is read: the proof runs them on every distance
#: between two inputs.
BY_TABLE = {"hil_generic_softmax_s8"}
#: Kernels that compute nothing.
_COPIES = {"hil_generic_copy"}
#: Fields that say how large the tensors are and how they are walked.
_SHAPE_FIELDS = {
    "rows", "length", "counts", "a_jumps", "b_jumps", "a_step", "b_step", "depth", "channels",
    "batches", "in_h", "in_w", "out_h", "out_w", "stride_h", "stride_w", "size", "bytes",
}  # fmt: skip


@dataclass
class Proof:
    """What was shown of a model, and what failed."""

    layers: int = 0
    #: Layers times portable kernels.
    calls: int = 0
    kernels: set[str] = field(default_factory=set)
    #: Sums, pairs of inputs and sums of windows, each for its channel.
    covered: int = 0
    #: The same where channels with equal parameters share them.
    checked: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Layer:
    node: Node
    ins: Sequence[Tensor | None]
    outs: Sequence[Tensor]
    cpu: Cpu

    @property
    def calls(self) -> list[KernelCall]:
        """The calls of the portable kernels that compute it."""
        found = candidates(self.node, self.ins, self.outs, self.cpu)
        return [c for c in found if isinstance(c, KernelCall) and not c.kernel.requires]


def prove(graph: Graph) -> Proof:
    """Return what holds for the layers of a graph as the compiler plans it."""
    proof = Proof()
    prover = Prover()
    checks: list[Check] = []
    for node in graph.nodes:
        if OPS[node.op].view:
            continue
        ins = [graph.tensors[name] if name else None for name in node.inputs]
        layer = _Layer(node, ins, graph.outs(node), get_cpu("host"))
        proof.layers += 1
        calls = layer.calls
        if not calls:
            proof.faults.append(f"{node.name}: no portable kernel computes it")
        for call in calls:
            proof.calls += 1
            proof.kernels.add(call.kernel.name)
            proof.faults += _trace_faults(node, call)
            checks += _extremes(layer, call)
            if is_known(call):
                proof.faults += prover.add(node.name, call, node, ins, layer.outs[0])
            elif call.kernel.name not in _COPIES:
                exhaust = _EXHAUST.get(call.kernel.name)
                if exhaust is None:
                    proof.faults.append(f"{node.name}: nothing exhausts {call.kernel.name}")
                    continue
                count, faults = exhaust(layer, call)
                proof.covered += count
                proof.checked += count
                proof.faults += faults
    try:
        check(checks)
    except AssertionError as error:
        proof.faults.append(str(error))
    tally, faults = prover.run()
    proof.covered += tally.covered
    proof.checked += tally.checked
    proof.faults += faults
    return proof


# Addresses ---------------------------------------------------------------------------------------


def _trace_faults(node: Node, call: KernelCall) -> list[str]:
    found = {str(one) for one in dependences(_function(call), [_INCLUDE])}
    if call.kernel.name in BY_TABLE:
        # What is shown in another way must need it.
        return [] if found else [f"{node.name}: {call.kernel.name} does not read by a table"]
    return [f"{node.name}: {call.kernel.name}: {one}" for one in sorted(found)]


def _function(call: KernelCall) -> str:
    """Return a call with its layer's parameters as a function in C."""
    kernel = call.kernel
    tensors = [(f"const {t} *", f"in{i}") for i, t in enumerate(kernel.inputs)]
    tensors += [(f"{t} *", f"out{i}") for i, t in enumerate(kernel.outputs)]
    tensors += [] if kernel.scratch == "0" else [("void *", "scratch")]
    taken = ", ".join(f"{type_}{name}" for type_, name in tensors)
    given = ", ".join(["&own", *(name for _, name in tensors)])
    return (
        f'#include "{kernel.header}"\n\n{c_parameters(kernel.name, "own", call.fields)}\n'
        f"void {kernel.name}_layer({taken}) {{\n    {kernel.name}({given});\n}}\n"
    )


def _extremes(layer: _Layer, call: KernelCall) -> Iterator[Check]:
    """Yield runs on the ends of the inputs' range and on random inputs."""
    rng = np.random.default_rng(1)
    for fill in (-128, 127, None):
        values: list[Array | None] = []
        for tensor in layer.ins:
            if tensor is None or tensor.data is not None:
                values.append(None if tensor is None else tensor.data)
            elif fill is None:
                values.append(rng.integers(-128, 128, tensor.shape).astype(np.int8))
            else:
                values.append(np.full(tensor.shape, fill, np.int8))
        yield _case(layer, call, values, f"inputs {'random' if fill is None else fill}")


def _case(layer: _Layer, call: KernelCall, values: Sequence[Array | None], told: str) -> Check:
    expected = OPS[layer.node.op].reference(layer.node, layer.ins, layer.outs, values)
    given = [value for i in call.inputs if (value := values[i]) is not None]
    shapes = [(out.shape, out.dtype) for out in layer.outs]
    return Check(Case(call, given, shapes, told=f"{layer.node.name}, {told}"), expected)


# All inputs --------------------------------------------------------------------------------------

_Result = tuple[int, list[str]]


def _exhausted(
    layer: _Layer,
    call: KernelCall,
    shapes: Sequence[Sequence[int]],
    out_shape: Sequence[int],
    values: Sequence[Array],
) -> _Result:
    """Run a layer's kernel on other shapes with the parameters of the layer."""
    ins = [
        None if t is None else replace(t, shape=tuple(shape))
        for t, shape in zip(layer.ins, shapes, strict=True)
    ]
    outs = [replace(layer.outs[0], shape=tuple(out_shape))]
    other = _Layer(layer.node, ins, outs, layer.cpu)
    (same,) = (c for c in other.calls if c.kernel is call.kernel)
    faults = [
        f"{layer.node.name}: {name} is {value} in {call.kernel.name}, {same.fields[name]} when all "
        "inputs run"
        for name, value in call.fields.items()
        if name not in _SHAPE_FIELDS and not np.array_equal(value, same.fields[name])
    ]
    try:
        check([_case(other, same, list(values), "all inputs")])
    except AssertionError as error:
        faults.append(str(error))
    return int(np.prod(out_shape)), faults


def _all_pairs(layer: _Layer, call: KernelCall) -> _Result:
    """Every pair of elements."""
    numbers = np.arange(-128, 128).astype(np.int8)
    a, b = (grid.reshape(1, 256, 256, 1) for grid in np.meshgrid(numbers, numbers))
    return _exhausted(layer, call, [a.shape, b.shape], a.shape, [a, b])


_WINDOWS = ("pad_", "in_", "out_", "filter_", "stride_")


def _pixels(call: KernelCall) -> tuple[int, int]:
    """Return rows and columns of a pool's windows, which must lie in the image."""
    f = {
        name: v
        for name, v in call.fields.items()
        if name.startswith(_WINDOWS) and isinstance(v, int)
    }
    inside = (
        f["pad_top"] == f["pad_left"] == 0
        and (f["out_h"] - 1) * f["stride_h"] + f["filter_h"] <= f["in_h"]
        and (f["out_w"] - 1) * f["stride_w"] + f["filter_w"] <= f["in_w"]
    )
    assert inside, f"windows of {call.kernel.name} reach beyond the image"
    return f["filter_h"], f["filter_w"]


def _all_maxima(layer: _Layer, call: KernelCall) -> _Result:
    """Every pair of a window's first and last pixel, and every value of each pixel by itself."""
    window = _pixels(call)
    numbers = np.arange(-128, 128).astype(np.int8)
    pixels = int(np.prod(window))
    alone = np.full((pixels, pixels, 256), -128, np.int8)
    alone[np.arange(pixels), np.arange(pixels)] = numbers
    first, last = np.meshgrid(numbers, numbers)
    pairs = np.full((pixels, first.size), -128, np.int8)
    pairs[0], pairs[-1] = first.reshape(-1), last.reshape(-1)
    x = np.concatenate([alone.reshape(pixels, -1), pairs], axis=1)
    shape = (1, *window, x.shape[1])
    return _exhausted(layer, call, [shape], (1, 1, 1, x.shape[1]), [x.reshape(shape)])


def _all_window_sums(layer: _Layer, call: KernelCall) -> _Result:
    """Every sum that a window can have: a channel for each."""
    window = _pixels(call)
    pixels = int(np.prod(window))
    totals = np.arange(255 * pixels + 1)
    # As many pixels of 127 as make up the sum, one of the rest, others of -128.
    full, rest = np.divmod(totals, 255)
    place = np.arange(pixels)[:, np.newaxis]
    x = np.where(place < full, 127, np.where(place == full, rest - 128, -128)).astype(np.int8)
    shape = (1, *window, totals.size)
    return _exhausted(layer, call, [shape], (1, 1, 1, totals.size), [x.reshape(shape)])


def _all_shares(layer: _Layer, call: KernelCall) -> _Result:
    """Every pair of a row of two, then every exponential with every sum of the row's length."""
    numbers = np.arange(-128, 128).astype(np.int8)
    pairs = np.stack([grid.reshape(-1) for grid in np.meshgrid(numbers, numbers)], axis=1)
    count, faults = _exhausted(layer, call, [pairs.shape], pairs.shape, [pairs])
    (x,) = layer.ins
    assert x is not None
    powers = exponentials(layer.node, x, SoftmaxAttributes.of(layer.node).beta)
    depth, near = x.shape[-1], call.fields["near"]
    one = int(rounding_divide_by_pot(powers[:1].astype(np.int64), SUM_BITS)[0])
    sums = np.arange(one, one * depth + 1, dtype=np.int64)
    scales = reciprocal((sums << leading_zeros(sums)) - (1 << 31)).astype("<i4")
    done = subprocess.run(
        [built("softmax.c")],
        input=np.array([near, depth, *powers], "<i4").tobytes() + scales.tobytes(),
        capture_output=True,
        timeout=_LIMIT_S,
        check=False,
    )
    words = done.stdout.decode().split()
    if done.returncode or words[:1] != ["checked"]:
        told = done.stdout.decode() or done.stderr.decode()[:1000]
        return count, [*faults, f"{layer.node.name}: {told.strip()}"]
    return count + int(words[1]), faults


_EXHAUST: Mapping[str, Callable[[_Layer, KernelCall], _Result]] = {
    "hil_generic_add_s8": _all_pairs,
    "hil_generic_average_pool_s8": _all_window_sums,
    "hil_generic_max_pool_s8": _all_maxima,
    "hil_generic_softmax_s8": _all_shares,
}
