"""Expected results of a device: from a reference of numerics, or from a file."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hil.errors import HilWarning
from hil.results.parts import Fallback
from hil.verify.comparison import Oracle
from hil.verify.provenance import model_file
from hil.verify.samples import Sample, array_samples, load_samples
from hil.verify.sensitivity import NamedGraph, Sensitivity
from hilc.artifact.library import ModelLibrary, Module, TensorInfo
from hilc.errors import InputError, ModelError
from hilc.frontends import Specialization, read_model, reader_of
from hilc.frontends.tflite.signatures import EntriesError
from hilc.ir import Array, Graph, Numerics
from hilc.ir.dtypes import IO_TYPES
from hilc.ops.verify import verify as verify_graph
from hilc.references import (
    Reference,
    get_reference,
    is_independent,
    numerics_of_reference,
    require_installed,
)
from hilc.support.arguments import typed
from hilc.support.inputs import check_regular
from hilc.target import get_cpu
from hilc.transforms.float_sums import with_float_sums
from hilc.transforms.fuse_quantized import fuse_quantized, is_quantized
from hilc.transforms.io_types import converted, rounding_of, with_io
from hilc.transforms.numerics import computed_otherwise, with_numerics

_Taken = TypeVar("_Taken")

#: The default references: the first that runs the model is used.
_PREFERRED = ("tflm", "litert-ref", "hilc")


class FallbackWarning(HilWarning):
    """No reference was named, and the default one cannot run here, or not this model."""


def installed_reference() -> tuple[str, Fallback | None]:
    """Return the reference to take where none is named, and why it is not the usual one."""

    def take(name: str) -> str:
        require_installed(name)
        return name

    return _first(_PREFERRED, take)


def _first(names: Sequence[str], take: Callable[[str], _Taken]) -> tuple[_Taken, Fallback | None]:
    """Return what can be taken first, and why it is not the first name's."""
    fallback = None
    for name in names[:-1]:
        try:
            return take(name), fallback and replace(fallback, used=name)
        except InputError as error:
            fallback = fallback or Fallback(names[0], names[-1], error.fact, error.hint)
    return take(names[-1]), fallback


def fallback_allowed(allow: bool | None = None) -> bool:
    """Return whether this compiler's own interpreter may replace a reference that cannot run.

    ``allow`` is the user's choice. Without one it may not in CI (``CI`` is set) and in tests of
    pytest, where a match is taken for the usual one.
    """
    if allow is not None:
        return allow
    is_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    return not is_ci and "PYTEST_CURRENT_TEST" not in os.environ


@typed
def reference_of(
    library: ModelLibrary,
    module: Module,
    name: str | None = None,
    *,
    source: str | Path | None = None,
    allow_fallback: bool | None = None,
) -> Oracle:
    """Return the reference called ``name`` for a model of ``library``.

    It computes the model's file, which the library holds; for one that does not (TVM's), ``source``
    is the file. Without a name it is the one that the model was compiled to compute as, ``tflm``
    unless another was asked for. Where that cannot run here, or not this model, it is
    ``litert-ref``, if it computes the same, or ``hilc``: then the oracle has the reason, and a
    :class:`FallbackWarning` is given. A fallback to ``hilc``, this compiler's own interpreter, is
    an :class:`~hil.errors.InputError` in CI (the variable ``CI`` is set), in pytest, and with
    ``allow_fallback=False``; ``allow_fallback=True`` permits it everywhere. A named reference that
    defines an operator of the model otherwise than the code is refused.
    """
    model = model_file(library, module)
    if source is not None:
        model = _read(Path(source))
    if model is None:
        raise InputError(
            f"the library of {module.name!r} does not hold the model that it was compiled from, "
            "so no reference can run",
            "give the model's file (--source MODEL.tflite), or the outputs to expect "
            "(--inputs F.npz --expect F.npz)",
        )
    numerics = _numerics(module, name)
    source_graph = _named_graph(model, module, numerics, source)
    graph, given, named = source_graph.graph, source_graph.given, source_graph.named
    reference, fallback = _reference(name, graph, model, numerics)
    if fallback is not None:
        _require_allowed(module, fallback, allow_fallback)
        warnings.warn(f"{module.name}: {fallback}", FallbackWarning, stacklevel=2)

    remark = f" ({fallback.missing})" if fallback else ""
    return Oracle(
        reference.name,
        reference.description + remark,
        lambda index, sample: named(reference.run_all(given(sample))),
        fallback,
        reference.reset_state,
        is_independent(reference.name),
        Sensitivity(lambda: source_graph, bool(graph.states)),
    )


def _named_graph(
    model: bytes, module: Module, numerics: Numerics, source: str | Path | None = None
) -> NamedGraph:
    """Return the graph of a model's file, named ``source``, as a module computes it.

    Raise InputError if the file's inputs and outputs are not the module's.
    """
    try:
        forms = module.dynamic_forms
        stated = Specialization(dynamic=forms[0].dynamic if forms else None)
        read = read_model(model, module.name, numerics, stated)
    except EntriesError as error:
        # The library's own file has one entry point; the library does not name that of `source`.
        raise ModelError(f"{source or module.name}: {error.fact}", error.ONE_ENTRY) from error
    fused = fuse_quantized(read.graph, read.dequantized).graph
    graph = with_float_sums(fused, get_cpu(module.cpu))
    compiled = _as_compiled(module, graph)
    # Where the file is another one, the mismatch is reported before anything runs.
    names = _pair(module, compiled, "input", module.inputs, graph.inputs)
    outputs = _pair(module, compiled, "output", module.outputs, graph.outputs)
    rounding = rounding_of(graph)

    def given(sample: Sample) -> Mapping[str, Array]:
        inputs = {}
        for ours, array in sample.items():
            theirs = graph.tensors[names[ours]]
            value = converted(array, compiled.tensors[theirs.name], theirs, rounding)
            inputs[theirs.name] = np.reshape(value, theirs.shape)
        return inputs

    def named(computed: Mapping[str, Array]) -> Mapping[str, Array]:
        found = {
            ours: converted(
                computed[theirs], graph.tensors[theirs], compiled.tensors[theirs], rounding
            )
            for ours, theirs in outputs.items()
        }
        return {**computed, **found}

    return NamedGraph(graph, given, named)


def _sensitivity(library: ModelLibrary, module: Module) -> Sensitivity | None:
    """Return the sensitivity of a model; None if the library does not hold the model's file."""
    model = model_file(library, module)
    if model is None:
        return None
    numerics = _numerics(module, None)
    return Sensitivity(lambda: _named_graph(model, module, numerics), bool(module.states))


def _require_allowed(module: Module, fallback: Fallback, allow: bool | None) -> None:
    """Raise InputError for a fallback to this compiler's own interpreter that is not allowed."""
    if is_independent(fallback.used) or fallback_allowed(allow):
        return
    accept = (
        "accept it: --allow-fallback, in Python allow_fallback=True, in pytest --hil-allow-fallback"
    )
    raise InputError(
        f"the reference {fallback.wanted} cannot run {module.name!r}: {fallback.missing}; "
        "this compiler's own interpreter in its place would not be independent",
        f"{fallback.remedy}; or {accept}" if fallback.remedy else accept,
    )


@typed
def expected_outputs(
    path: str | Path | Mapping[str, npt.ArrayLike],
    module: Module,
    samples: int,
    library: ModelLibrary | None = None,
) -> Oracle:
    """Return the outputs of ``samples`` samples from an NPZ file, or from arrays by name.

    With the ``library`` of the module, floats are also equal where they differ by rounding only
    because terms cancel (:mod:`hil.verify.comparison`).
    """
    label = "a mapping" if isinstance(path, Mapping) else str(path)
    if isinstance(path, Mapping):
        expected = array_samples(path, module.outputs, "output", label)
    else:
        expected = load_samples(path, module.outputs, "output")
    if len(expected) != samples:
        raise InputError(
            f"{label} holds outputs of {len(expected)} samples, the inputs have {samples}",
            "give as many outputs as inputs",
        )
    return Oracle(
        "expect",
        f"expected outputs of {label}",
        lambda index, sample: expected[index],
        sensitivity=None if library is None else _sensitivity(library, module),
    )


def definition_of(reference: str) -> str | None:
    """Return the option value of the compiler that computes as ``reference`` does; None for any."""
    numerics = numerics_of_reference(reference)
    return None if numerics is None else numerics.value


def _read(path: Path) -> bytes:
    check_regular(path, "give the model's file as --source")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read the model {path}: {error.strerror}", "give the file as --source"
        ) from None


def _pair(
    module: Module,
    graph: Graph,
    kind: str,
    tensors: Sequence[TensorInfo],
    originals: Sequence[str],
) -> dict[str, str]:
    """Return the model file's name of each of the module's tensors.

    By name, as it is or as TVM writes it in C; where TVM renamed all of them (its outputs are
    ``output0``, ``output1``), by position. A shape may be flat, but sizes and types agree.
    """
    by_name = {_in_c(name): name for name in originals}
    found = [by_name.get(_in_c(tensor.name), "") for tensor in tensors]
    if sorted(found) != sorted(originals):
        found = list(originals)
    infos = [graph.tensors[name] for name in found]
    if len(found) != len(tensors) or any(
        (tensor.dtype, tensor.nbytes) != (info.dtype, info.nbytes)
        for tensor, info in zip(tensors, infos, strict=True)
    ):
        ours = ", ".join(f"{t.name} {t.dtype}{list(t.shape)}" for t in tensors)
        theirs = ", ".join(
            f"{name} {graph.tensors[name].dtype}{list(graph.tensors[name].shape)}"
            for name in originals
        )
        raise InputError(
            f"the {kind}s of the compiled model {module.name!r} ({ours}) are not those of the "
            f"model's file ({theirs})",
            "give the file that the library was compiled from",
        )
    return {tensor.name: name for tensor, name in zip(tensors, found, strict=True)}


def _as_compiled(module: Module, graph: Graph) -> Graph:
    """Return the graph with inputs and outputs of the module's types, where the model converts to
    these itself (``--io``); the graph where the types are others.
    """
    for io in IO_TYPES:
        with suppress(InputError):
            made = with_io(graph, io)
            pairs = ((module.inputs, made.inputs), (module.outputs, made.outputs))
            if all(
                sorted(tensor.dtype for tensor in ours)
                == sorted(made.tensors[name].dtype for name in theirs)
                for ours, theirs in pairs
            ):
                return made
    return graph


def _in_c(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name)


def _numerics(module: Module, name: str | None) -> Numerics:
    """Return the definition that the module computes; of code that does not say it, the
    reference's.
    """
    if module.reference is not None:
        return Numerics(module.reference)
    return (numerics_of_reference(name) if name is not None else None) or Numerics.TFLM


def _reference(
    name: str | None, graph: Graph, source: bytes, numerics: Numerics = Numerics.TFLM
) -> tuple[Reference, Fallback | None]:
    def take(candidate: str) -> Reference:
        _require_same_definition(candidate, graph, numerics)
        return get_reference(candidate, graph, source)

    if name is not None:
        return take(name), None
    own = numerics.value
    preferred = _preferred(source)
    if is_quantized(graph):
        return _first(["qdq", *preferred], take)
    if own not in preferred:
        return _first(preferred, take)
    return _first([own, *(other for other in preferred if other != own)], take)


def _preferred(source: bytes) -> tuple[str, ...]:
    """Return the references to try for a model's file, in order."""
    reader = reader_of(source)
    return _PREFERRED if reader is None else reader.references


def _require_same_definition(name: str, graph: Graph, numerics: Numerics) -> None:
    """InputError where the reference would differ from the code by design."""
    theirs = numerics_of_reference(name)
    if theirs is None or not (otherwise := computed_otherwise(graph, theirs)):
        return
    more = f" and {len(otherwise) - 1} more" if len(otherwise) > 1 else ""
    raise InputError(
        f"the model {graph.name!r} was compiled to compute as {numerics.value} does, and {name} "
        f"defines {otherwise[0].op} {otherwise[0].name!r}{more} otherwise",
        _compile_it(graph, theirs) + f"compare with {numerics.value}",
    )


def _compile_it(graph: Graph, numerics: Numerics) -> str:
    """Return the advice to compile by another definition; empty where that is not supported."""
    try:
        verify_graph(with_numerics(graph, numerics))
    except ModelError:
        return ""
    return f"compile it with --reference {numerics.value}, or "
