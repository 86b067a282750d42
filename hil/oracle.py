"""What a device's results are compared with: a reference of numerics, or outputs from a file."""

from __future__ import annotations

from pathlib import Path

from hil.samples import load_samples
from hil.verify import Oracle
from hilc.errors import InputError
from hilc.importer import load_model
from hilc.ir import Graph
from hilc.library import ModelLibrary, Module
from hilc.references import Reference, get_reference

DEFAULT_REFERENCE = "tflm"
FALLBACK_REFERENCE = "hilc"


def reference_of(library: ModelLibrary, module: Module, name: str | None = None) -> Oracle:
    """The reference called ``name`` for a model of ``library``, which holds the model's file.

    Without a name it is ``tflm``, or ``hilc`` where that one cannot run; the description says why.
    """
    source = library.files.get(f"src/{module.name}.tflite")
    if source is None:
        raise InputError(
            f"the library of {module.name!r} does not hold the model that it was compiled from, "
            "so no reference can run",
            "give the model file, or the outputs to expect: --inputs F.npz --expect F.npz",
        )
    graph = load_model(source, module.name)
    reference, remark = _reference(name, graph, source)
    return Oracle(
        reference.name,
        reference.description + remark,
        lambda index, sample: reference.run_all(sample),
    )


def expected_outputs(path: str | Path, module: Module, samples: int) -> Oracle:
    """The outputs of ``samples`` samples from an NPZ file."""
    expected = load_samples(path, module.outputs, "output")
    if len(expected) != samples:
        raise InputError(
            f"{path} holds outputs of {len(expected)} samples, the inputs have {samples}",
            "give as many outputs as inputs",
        )
    return Oracle("expect", f"expected outputs of {path}", lambda index, sample: expected[index])


def _reference(name: str | None, graph: Graph, source: bytes) -> tuple[Reference, str]:
    if name is not None:
        return get_reference(name, graph, source), ""
    try:
        return get_reference(DEFAULT_REFERENCE, graph, source), ""
    except InputError as error:
        return get_reference(FALLBACK_REFERENCE, graph, source), f" ({error.fact})"
