"""A sample of each model, with the outputs of the reference, for the example of a library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hil.verify import FLOAT_RTOL
from hil.verify.comparison import MOST_RTOL, largest_magnitude
from hil.verify.oracle import reference_of
from hil.verify.provenance import model_file
from hil.verify.samples import first_sample, random_sample
from hilc.artifact.library import ModelLibrary, Module
from hilc.errors import LoopBoundError
from hilc.ir import Array

#: Computes everywhere, and the same everywhere: a library must not depend on what is installed
#: where it is exported.
_REFERENCE = "hilc"
_INPUTS = "the inputs of the example are those of --inputs F.npz, in Python sample=..."


@dataclass(frozen=True)
class ModelSample:
    """Inputs of a model and its outputs, by the names of the tensors."""

    module: Module
    inputs: Mapping[str, Array]
    #: None where the library does not hold the model that it was compiled from.
    outputs: Mapping[str, Array] | None
    #: Whether the inputs are the first random ones of `hil verify`, not a user's.
    is_random: bool = True
    #: How much each element of the outputs of floats moves per relative change of the operands.
    slopes: Mapping[str, Array] = field(default_factory=dict)

    def tolerance(self, name: str) -> float:
        """Return how far an output of floats may be from the reference's: no element further than
        in `hil verify`.
        """
        assert self.outputs is not None, "there is a tolerance where there are outputs"
        slope = float(self.slopes[name].min()) if name in self.slopes else 0.0
        largest = largest_magnitude(self.outputs[name])
        # Few digits: the last ones must not depend on numpy's version.
        return max(
            FLOAT_RTOL * largest, min(FLOAT_RTOL * float(f"{slope:.1e}"), MOST_RTOL * largest)
        )


def sample_of(
    library: ModelLibrary, module: Module, given: Any = None, *, quantize: bool = False
) -> ModelSample:
    """Return a sample with the outputs of the interpreter.

    It is ``given``, as :func:`~hil.verify.samples.first_sample` takes it, or the first random
    sample that `hil verify` takes.
    """
    stated = first_sample(given, module.inputs, quantize=quantize)
    inputs = random_sample(module.inputs, 0, 0) if stated is None else stated
    if model_file(library, module) is None:
        return ModelSample(module, inputs, None, stated is None)
    oracle = reference_of(library, module, _REFERENCE)
    oracle.reset_state()
    try:
        computed = oracle.values(0, inputs)
    except LoopBoundError as error:
        error.hint = f"{error.hint}; {_INPUTS}"
        raise
    outputs = {tensor.name: tensor.held(computed[tensor.name]) for tensor in module.outputs}
    slopes = {}
    if oracle.sensitivity is not None:
        oracle.sensitivity.follow(inputs, is_first=True)
        floats = [tensor for tensor in module.outputs if tensor.dtype == "float32"]
        found = {tensor.name: oracle.sensitivity.slope(tensor) for tensor in floats}
        slopes = {name: slope for name, slope in found.items() if slope is not None}
    return ModelSample(module, inputs, outputs, stated is None, slopes)
