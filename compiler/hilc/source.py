"""A model prepared for the planner: read, simplified by the passes, partitioned."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from hilc.errors import InputError
from hilc.external import ExternalCodegen
from hilc.frontends import LoadedModel, Specialization, read_model
from hilc.frontends.objects import file_of, name_of
from hilc.ir import Annotations, Array, Graph, Numerics, Rounding
from hilc.ir.annotations import NOTHING_FOLDED, Folded
from hilc.ir.dtypes import KEEP
from hilc.ops import OPS
from hilc.ops.verify import verify
from hilc.target import Cpu
from hilc.transforms import run_passes
from hilc.transforms.float_sums import with_float_sums
from hilc.transforms.fold_channels import fold_channels, folded_away
from hilc.transforms.fuse_quantized import fuse_quantized, require_integers
from hilc.transforms.io_types import with_io
from hilc.transforms.numerics import with_numerics
from hilc.transforms.partition import partition


@dataclass(frozen=True)
class PreparedModel:
    """A model before and after the passes."""

    original: Graph
    graph: Graph
    #: File of the model; None for a graph.
    file: bytes | None = field(repr=False)
    #: Channels that :func:`hilc.transforms.fold_channels.fold_channels` removed.
    folded: Folded = NOTHING_FOLDED
    #: Facts for reports that are no part of the graph.
    annotations: Annotations = Annotations()

    @property
    def digest(self) -> str:
        """Digest of the model's graph, its layers' names and the removed channels.

        64 hexadecimal digits.
        """
        whole = graph_digest(self.original)
        if self.folded == NOTHING_FOLDED:
            return whole
        return hashlib.sha256(f"{whole} without {self.folded}".encode()).hexdigest()


def prepare(
    model: Any,
    name: str | None,
    cpu: Cpu,
    *,
    externals: Sequence[ExternalCodegen] = (),
    api: str = "unpacked",
    fold_constant_channels: bool = True,
    numerics: Numerics | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, Array] | None = None,
    loop_bounds: Mapping[str, int] | None = None,
    samples: Any = None,
    allow_float: bool = False,
    io: str = KEEP,
    signature: str | None = None,
    dynamic: str | None = None,
) -> PreparedModel:
    """Return ``model`` (a file, its bytes, a graph or an object) prepared for planning on ``cpu``.

    Without ``numerics`` a file is computed as TFLM does, and a graph as its nodes say. ``shapes``,
    ``inputs`` and ``loop_bounds`` state what a file leaves open
    (:class:`~hilc.frontends.Specialization`), and ``samples`` are example arguments of a PyTorch
    module (:mod:`hilc.frontends.objects`).

    ``signature`` selects one of several entry points of a file, ``io`` the type of inputs and
    outputs (:func:`hilc.transforms.io_types.with_io`), and ``dynamic`` how the dynamically
    quantized layers of a file compute.

    Raise :class:`~hilc.errors.InputError` for shapes or a signature that are stated for a graph.
    """
    stated = Specialization(
        {name: tuple(shape) for name, shape in (shapes or {}).items()},
        dict(inputs or {}),
        signature=signature,
        dynamic=dynamic,
        loop_bounds=dict(loop_bounds or {}),
    )
    read: LoadedModel | None = None
    file = file_of(model, samples)
    if file is not None:
        name = name or name_of(model)
        model = file
    if isinstance(model, Graph):
        if signature is not None:
            raise InputError(
                f"a graph has no signatures; {signature!r} cannot be selected",
                "leave out the signature, or give the model's file",
            )
        if not stated.states_nothing:
            raise InputError(
                "a graph leaves no shape open, so none can be stated for it",
                "leave out the shapes, inputs and bounds of loops",
            )
        original = model.with_(name=name) if name is not None else model
        if numerics is not None:
            original = with_numerics(original, numerics)
    else:
        read = read_model(model, name, numerics or Numerics.TFLM, stated)
        original, file = read.graph, read.data
    fused = fuse_quantized(original, {} if read is None else read.dequantized)
    require_integers(
        fused.float_layers,
        allow_float,
        of_file=read is not None,
        operators={} if read is None else _operators(fused.graph, read.operators),
    )
    graph = run_passes(with_io(fused.graph, io))
    fixed_sizes = () if read is None else read.fixed_sizes
    annotations = Annotations(
        fixed_sizes,
        fused.float_layers,
        fused.rounded_biases,
        () if read is None else read.class_labels,
        "" if read is None else read.dynamic,
    )
    folded = NOTHING_FOLDED
    if fold_constant_channels:
        whole, reduced = graph, fold_channels(graph)
        graph = reduced.graph
        verify(graph, whole)
        folded = folded_away(whole, graph)
        annotations = replace(annotations, channels=reduced.channels)
    graph = with_float_sums(graph, cpu)
    if externals:
        graph = partition(graph, externals, cpu, api, graph.name)
    return PreparedModel(original, graph, file, folded, annotations)


def _operators(graph: Graph, operators: Mapping[int, str]) -> dict[str, str]:
    """Return by layer the operator of the file that it comes from."""
    return {n.name: operators[n.index] for n in graph.nodes if n.index in operators}


def graph_digest(graph: Graph) -> str:
    """Return a digest of everything but the graph's own name."""
    digest = hashlib.sha256()
    for node in graph.nodes:
        attributes = [(f, getattr(node.attrs, f.name)) for f in fields(node.attrs)]
        stated = sorted(
            (f.name, value)
            for f, value in attributes
            if not (f.metadata.get("added") and value == f.default)
        )
        digest.update(repr((node.op, node.inputs, node.outputs, stated)).encode())
        for called in OPS[node.op].called_graphs(node) if node.op in OPS else ():
            digest.update(graph_digest(called).encode())
        if node.numerics is not Numerics.TFLM:
            digest.update(node.numerics.value.encode())
        if node.rounding is Rounding.NEAREST_EVEN:
            digest.update(node.rounding.value.encode())
    for name, tensor in sorted(graph.tensors.items()):
        digest.update(repr((name, tensor.shape, tensor.dtype, tensor.quant)).encode())
        digest.update(b"" if tensor.data is None else tensor.data.tobytes())
    digest.update(repr((graph.inputs, graph.outputs)).encode())
    for state in graph.states:
        digest.update(repr((state.name, state.after)).encode())
        digest.update(graph.reset_value(state).tobytes())
    return digest.hexdigest()
