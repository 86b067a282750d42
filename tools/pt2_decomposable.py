#!/usr/bin/env python3
"""Writes compiler/hilc/frontends/pt2/decomposable.py: what ``run_decompositions()`` replaces.

It lists the operators that the compiler does not translate, and that PyTorch replaces by operators
which it does, for every sample of PyTorch's own tests that calls them. It needs the extra
``torch`` and the package ``expecttest``, which PyTorch's tests import.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from hilc.frontends.pt2 import translators
from hilc.frontends.pt2.decompose import refused_operator
from hilc.frontends.pt2.model import is_supported

assert translators

TARGET = Path(__file__).resolve().parents[1] / "compiler/hilc/frontends/pt2/decomposable.py"
#: Samples of each operator that are compiled.
SAMPLES = 4

HEAD = '''"""Operators without a translator that ``run_decompositions()`` of PyTorch replaces by
supported ones.

Written by tools/pt2_decomposable.py.
"""

from __future__ import annotations

#: Names without ``aten.`` and the overload.
DECOMPOSABLE = frozenset(
    [
'''


class Function(torch.nn.Module):  # type: ignore[misc]
    """A call of an operator; its tensors are inputs, and other arguments constants."""

    def __init__(self, operator: Any, arguments: Any) -> None:
        super().__init__()
        leaves, self.tree = torch.utils._pytree.tree_flatten(arguments)
        self.operator = operator
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = tuple(leaves[i].detach().contiguous() for i in self.places)

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        arguments, keywords = torch.utils._pytree.tree_unflatten(leaves, self.tree)
        return self.operator(*arguments, **keywords)


def programs() -> Iterator[Any]:
    """Yield the samples of PyTorch's tests as programs, those that can be exported."""
    for operator in op_db:
        if torch.float32 not in operator.dtypes:
            continue
        samples = operator.sample_inputs("cpu", torch.float32, requires_grad=False)
        for sample in islice(samples, SAMPLES):
            arguments = ([sample.input, *sample.args], sample.kwargs)
            try:
                module = Function(operator.op, arguments)
                yield torch.export.export(module, module.tensors)
            except Exception:  # what PyTorch cannot export needs no hint
                continue


def untranslated(program: Any) -> set[str]:
    """Return the names of the program's operators that have no translator."""
    targets = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    return {
        target.split(".")[1]
        for target in targets
        if target.startswith("aten.") and not is_supported(target)
    }


def is_refused(program: Any) -> bool | None:
    """Return whether an operator of a program is refused after ``run_decompositions()``; None where
    PyTorch cannot decompose it.
    """
    file = io.BytesIO()
    try:
        torch.export.save(program.run_decompositions(), file)
    except Exception:  # whatever its decompositions raise
        return None
    return refused_operator(file.getvalue()) is not None


def names() -> list[str]:
    """Return the names of the operators, in order."""
    good: set[str] = set()
    bad: set[str] = set()
    for program in programs():
        if found := untranslated(program):
            refused = is_refused(program)
            if refused is not None:
                (bad if refused else good).update(found)
    # Without their own operations in place, and those of training.
    return sorted(n for n in good - bad if not n.endswith(("_", "_backward", "_backward_data")))


def main() -> None:
    warnings.simplefilter("ignore")
    listed = "".join(f'        "{name}",\n' for name in names())
    TARGET.write_text(f"{HEAD}{listed}    ]\n)\n")


if __name__ == "__main__":
    main()
