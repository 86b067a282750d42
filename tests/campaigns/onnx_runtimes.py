#!/usr/bin/env python3
"""Compare this compiler, ``onnx.reference`` and onnxruntime on every ONNX operator.

    python tools/measure.py onnx_runtimes [COUNT] [--seed N]

Draws COUNT models (default: 12) of each operator, with random types, attributes and opsets, and
runs the cases of ONNX's backend suite that have one node. Prints, by operator, where two of the
three disagree, with the attributes of one such case. Exits with 1 where this compiler agrees with
neither of the others.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx_graphs import BOUNDS, FAMILIES, random_model

from hilc.errors import HilError
from hilc.interpreter import Interpreter
from hilc.ir import Array
from hilc.onnx_backend import specialized
from hilc.references.onnx_reference import Evaluator
from hilc.references.onnx_runtime import Session

#: Random by definition, so no two programs agree.
_RANDOM = ("Bernoulli", "Multinomial", "Random")
#: Cases of the suite beyond this many elements are left out.
_MOST_ELEMENTS = 1 << 16


@dataclass
class Found:
    """Results of one operator: how often each pair agreed, and an example of each disagreement."""

    cases: int = 0
    unlike: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def same(a: Array | None, b: Array | None, slack: float = 0.0) -> bool:
    """Return whether two outputs are equal: integers exactly, floats within a relative bound."""
    if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind not in "fiu":
        return bool(np.array_equal(a, b))
    with np.errstate(all="ignore"):
        first, second = a.astype(np.float64), b.astype(np.float64)
        bound = slack
        if a.dtype.kind == "f":
            bound += BOUNDS[a.dtype.name] * np.abs(second[np.isfinite(second)]).max(initial=1.0)
        close = np.abs(first - second) <= bound
    return bool(((a == b) | ((a != a) & (b != b)) | close).all())


def drawn_cases(count: int, seed: int) -> Iterator[tuple[str, onnx.ModelProto, dict[str, Array]]]:
    """Yield models that draw one operator each, and their inputs."""
    for op in sorted(FAMILIES):
        for each in range(seed, seed + count):
            drawn = random_model(each, (op,))
            if drawn.operators:
                yield op, drawn.model, dict(drawn.inputs)


def suite_cases() -> Iterator[tuple[str, onnx.ModelProto, dict[str, Array]]]:
    """Yield the cases of ONNX's backend suite with one node, and their inputs."""
    for case in load_model_tests(kind="node"):
        model, sets = case.model, case.data_sets
        if model is None or not sets or len(model.graph.node) != 1:
            continue
        names = [value.name for value in model.graph.input]
        arrays = [
            numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for v in sets[0][0]
        ]
        if not all(isinstance(array, np.ndarray) for array in arrays):
            continue
        if sum(array.size for array in arrays) <= _MOST_ELEMENTS:
            yield model.graph.node[0].op_type, model, dict(zip(names, arrays, strict=False))


def outputs_of(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    """Return the outputs by the three programs; a program that rejects the model is left out."""
    data = model.SerializeToString()
    names = [value.name for value in model.graph.output]
    found: dict[str, dict[str, Array]] = {}
    try:
        graph, _, _ = specialized(data, dict(inputs))
        given = {name: inputs[name] for name in graph.inputs}
        values: Mapping[str, object] = Interpreter(graph).run(given)
        found["ours"] = {
            n: np.asarray(values[o]) for n, o in zip(names, graph.outputs, strict=True)
        }
    except (HilError, ValueError):
        return {}
    for name, engine in (("onnx", Evaluator), ("onnxruntime", Session)):
        try:
            values = engine(data).run(inputs)
        except HilError:
            continue
        if all(n in values for n in names):
            found[name] = {n: np.asarray(values[n]) for n in names}
    return found


def described(model: onnx.ModelProto) -> str:
    """Return the attributes, types and shapes of the last node of a model."""
    node = model.graph.node[-1]
    attributes = []
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        attributes.append(
            f"{attribute.name}={value.decode() if isinstance(value, bytes) else value}"
        )
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    return f"opset {opset} {' '.join(map(str, attributes)):.200}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("count", nargs="?", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-suite", action="store_true", help="without ONNX's backend suite")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    results: dict[str, Found] = defaultdict(Found)
    sources = [drawn_cases(args.count, args.seed)]
    if not args.no_suite:
        sources.append(suite_cases())
    for source in sources:
        for op, model, inputs in source:
            if op.startswith(_RANDOM):
                continue
            outputs = outputs_of(model, inputs)
            if "ours" not in outputs or len(outputs) == 1:
                continue
            result = results[op]
            result.cases += 1
            pairs = [(a, b) for a in outputs for b in outputs if a < b]
            unlike = [
                f"{b} and {a}"
                for a, b in pairs
                if not all(same(outputs[a][n], outputs[b][n]) for n in outputs[a])
            ]
            if unlike:
                key = ", ".join(sorted(unlike))
                result.unlike[key].append(described(model))
    wrong = 0
    for op, result in sorted(results.items()):
        for key, examples in result.unlike.items():
            alone = key.count("ours") == 2
            wrong += alone
            print(f"{op}: {len(examples)} of {result.cases} differ ({key}): {examples[0]}")
    print(
        f"{sum(r.cases for r in results.values())} cases of {len(results)} operators; "
        f"this compiler alone differs in {wrong}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
