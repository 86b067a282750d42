"""A sample of each model, with the outputs of the reference, for the example of a library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hil.verify import FLOAT_RTOL
from hil.verify.oracle import reference_of
from hil.verify.provenance import model_file
from hil.verify.samples import random_sample
from hilc.artifact.library import ModelLibrary, Module
from hilc.ir import Array

#: Computes everywhere, and the same everywhere: a library must not depend on what is installed
#: where it is exported.
_REFERENCE = "hilc"


@dataclass(frozen=True)
class ModelSample:
    """Inputs of a model and its outputs, by the names of the tensors."""

    module: Module
    inputs: Mapping[str, Array]
    #: None where the library does not hold the model that it was compiled from.
    outputs: Mapping[str, Array] | None
    #: How much each element of the outputs of floats moves per relative change of the operands.
    slopes: Mapping[str, Array] = field(default_factory=dict)

    def tolerance(self, name: str) -> float:
        """Return how far an output of floats may be from the reference's: no element further than
        in `hil verify`.
        """
        assert self.outputs is not None, "there is a tolerance where there are outputs"
        values = np.abs(self.outputs[name][np.isfinite(self.outputs[name])])
        slope = float(self.slopes[name].min()) if name in self.slopes else 0.0
        # Few digits: the last ones must not depend on numpy's version.
        return FLOAT_RTOL * max(float(values.max(initial=0)), float(f"{slope:.1e}"))


def sample_of(library: ModelLibrary, module: Module) -> ModelSample:
    """Return the first sample that `hil verify` takes, with the outputs of the interpreter."""
    inputs = random_sample(module.inputs, 0, 0)
    if model_file(library, module) is None:
        return ModelSample(module, inputs, None)
    oracle = reference_of(library, module, _REFERENCE)
    oracle.reset_state()
    computed = oracle.values(0, inputs)
    outputs = {tensor.name: tensor.held(computed[tensor.name]) for tensor in module.outputs}
    slopes = {}
    if oracle.sensitivity is not None:
        oracle.sensitivity.follow(inputs, is_first=True)
        floats = [tensor for tensor in module.outputs if tensor.dtype == "float32"]
        found = {tensor.name: oracle.sensitivity.slope(tensor) for tensor in floats}
        slopes = {name: slope for name, slope in found.items() if slope is not None}
    return ModelSample(module, inputs, outputs, slopes)
