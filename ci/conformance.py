"""ONNX's whole backend suite through the compiler: ``make conformance``.

Every test of the installed ``onnx`` (node, simple, pytorch-converted, pytorch-operator) is read,
specialized with the inputs of its first run where the compiler must know some, run by the
interpreter and, in bulk, by generated C on this machine; both must agree with the test's expected
outputs by the suite's own tolerance. What is not read is refused, with a reason; the reasons are
listed by count. The last line is ``conformance: P passed, F failed, R refused of T``.

    python ci/conformance.py [PATTERN ...] [--no-c] [--board NAME] [--list] [--json FILE]

A pattern selects tests by a part of their name, or with a leading ``=`` by an operator in them.
"""

from __future__ import annotations

import argparse
import glob
import json
import re
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import hil
import hilc
import hilc.host
from hil.board import load_board
from hil.errors import BuildError
from hilc.errors import HilError
from hilc.interpreter import run
from hilc.ir import Array, Graph
from hilc.onnx_backend import specialized

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
#: Two last bits of float16; the suite itself allows bfloat16 two of its own.
HALF_BOUND = 2.0**-9
#: By how much outputs may be off whose expected values carry the rounding of numpy's transforms in
#: single precision, where the right value is 0.
BOUNDS = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}
#: Models that one shared object is built of, and one image of a board.
BULK, BOARD_BULK = 150, 40


@dataclass
class Case:
    """A test of the suite, and what became of it."""

    name: str
    model: onnx.ModelProto
    sets: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float
    #: ``passed``, ``failed`` or ``refused``, and why.
    result: str = ""
    reason: str = ""
    graph: Graph | None = None
    #: The inputs that were taken as constants from the first run.
    fixed: frozenset[str] = field(default_factory=frozenset)

    @property
    def operators(self) -> list[str]:
        """The operators of the model, once each."""
        return sorted({node.op_type for node in self.model.graph.node})

    def end(self, result: str, reason: str) -> None:
        """Record a result; the first one that is no pass stays."""
        if self.result not in ("failed", "refused"):
            self.result, self.reason = result, reason


def cases() -> Iterator[Case]:
    """Yield the tests of the suite."""
    for kind in KINDS:
        for test in load_model_tests(kind=kind):
            if test.model is not None:
                sets = [([_value(x) for x in xs], [_value(y) for y in ys])
                        for xs, ys in test.data_sets]  # fmt: skip
                yield Case(test.name, test.model, sets, test.rtol, test.atol)
                continue
            folder = Path(test.model_dir)
            model = onnx.load(folder / "model.onnx")
            sets = [
                (
                    _protos(data, "input", model.graph.input),
                    _protos(data, "output", model.graph.output),
                )
                for data in sorted(folder.glob("test_data_set*"))
            ]
            yield Case(test.name, model, sets, test.rtol, test.atol)


def _is_half(expected: Sequence[Any]) -> bool:
    return any(getattr(value, "dtype", None) == np.float16 for value in expected)


def _value(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _protos(folder: Path, role: str, declared: Any) -> list[Any]:
    count = len(glob.glob(str(folder / f"{role}_*.pb")))
    return [_read(folder / f"{role}_{i}.pb", declared[i].type) for i in range(count)]


def _read(path: Path, declared: onnx.TypeProto) -> Any:
    kinds = {
        "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
        "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
    }
    proto, convert = kinds.get(
        declared.WhichOneof("value"), (onnx.TensorProto, numpy_helper.to_array)
    )
    message = proto()
    message.ParseFromString(path.read_bytes())
    return convert(message)


def interpret(case: Case) -> None:
    """Read a test's model and run it by the interpreter."""
    names = [value.name for value in case.model.graph.input]
    constants = {tensor.name for tensor in case.model.graph.initializer}
    if len(names) > len(case.sets[0][0]):
        names = [name for name in names if name not in constants]
    try:
        first = dict(zip(names, case.sets[0][0], strict=False))
        numbers = (np.ndarray, np.generic)
        arrays = {
            name: np.asarray(value) for name, value in first.items() if isinstance(value, numbers)
        }
        case.graph, _, case.fixed = specialized(case.model.SerializeToString(), arrays)
        for inputs, expected in case.sets:
            values = dict(zip(names, inputs, strict=False))
            if any(not np.array_equal(values[name], first[name]) for name in case.fixed):
                case.end("refused", "an operand that must be constant changes between runs")
                return
            given = {name: np.asarray(values[name]) for name in case.graph.inputs}
            results = run(case.graph, given)
            outputs = [results[name] for name in case.graph.outputs]
            difference = compared(case, outputs, expected)
            if difference:
                case.end("failed", f"interpreter: {difference}")
                return
    except HilError as error:
        case.end("refused", error.fact)
        return
    except Exception as error:
        case.end("failed", f"interpreter: {type(error).__name__}: {error}")
        return
    case.end("passed", "")


def compared(case: Case, outputs: Sequence[Array], expected: Sequence[Any]) -> str:
    """Return in what the outputs differ from the expected ones, by the suite's own comparison."""
    rtol = max(case.rtol, HALF_BOUND) if _is_half(expected) else case.rtol
    atol = max(case.atol, BOUNDS.get(case.name, 0.0))
    try:
        Runner.assert_similar_outputs(expected, outputs, rtol, atol)
    except (AssertionError, TypeError) as error:
        return " ".join(str(error).split())[:200]
    return ""


def in_c(chosen: Sequence[Case]) -> None:
    """Run tests by generated C, many in one shared object."""
    libraries = []
    for number, case in enumerate(chosen):
        assert case.graph is not None
        try:
            library = hilc.compile(case.graph.with_(name=f"t{number}"), cpu="host")
            libraries.append((case, library))
        except HilError as error:
            case.end("refused", f"in C: {error.fact}")
        except Exception as error:
            case.end("failed", f"compiler: {type(error).__name__}: {error}")
    for start in range(0, len(libraries), BULK):
        part = libraries[start : start + BULK]
        factory = hilc.host.AotExecutorFactory(hilc.merge([library for _, library in part]))
        for case, library in part:
            with factory[library.modules[0].name](hilc.host.cpu(0)) as executor:
                _run_in_c(case, executor)


def _run_in_c(case: Case, executor: Any, where: str = "in C") -> None:
    graph = case.graph
    assert graph is not None
    names = [value.name for value in case.model.graph.input]
    for inputs, expected in case.sets:
        values = dict(zip(names, inputs, strict=False))
        for name in graph.inputs:
            executor.set_input(name, np.asarray(values[name]))
        executor.run()
        outputs = [np.asarray(executor.get_output(i)) for i in range(len(graph.outputs))]
        difference = compared(case, outputs, expected)
        if difference:
            case.result = ""
            case.end("failed", f"{where}: {difference}")


def on_board(chosen: Sequence[Case], name: str) -> None:
    """Run tests on a board, many in one image; what does not fit into it is refused."""
    board = load_board(name)
    libraries = []
    for number, case in enumerate(chosen):
        assert case.graph is not None
        try:
            graph = case.graph.with_(name=f"t{number}")
            library = hilc.compile(graph, cpu=board.cpu.name, pools="external")
            libraries.append((case, library))
        except HilError as error:
            case.end("refused", f"on {name}: {error.fact}")
    for start in range(0, len(libraries), BOARD_BULK):
        _image(libraries[start : start + BOARD_BULK], name)


def _image(part: Sequence[tuple[Case, Any]], name: str) -> None:
    """Run tests in one image, or in halves of it where it does not fit."""
    try:
        with hil.open(
            load_board(name), *(library for _, library in part), workspace="shared"
        ) as device:
            for case, library in part:
                try:
                    _run_in_c(case, device[library.modules[0].name], f"on {name}")
                except HilError as error:
                    case.result = ""
                    case.end("failed", f"on {name}: {error.fact}")
    except BuildError as error:
        if len(part) == 1:
            part[0][0].result = ""
            part[0][0].end("refused", f"on {name}: {error.fact}")
            return
        middle = len(part) // 2
        _image(part[:middle], name)
        _image(part[middle:], name)


def selected(case: Case, patterns: Sequence[str]) -> bool:
    """Return whether a pattern names the test; without patterns every test is selected."""
    return not patterns or any(
        p[1:] in case.operators if p.startswith("=") else p in case.name for p in patterns
    )


def _kind_of(reason: str) -> str:
    """Return a reason without what is of one test only."""
    reason = re.sub(r"^(node \d+ \([^)]*\): )+", "", reason)
    reason = re.sub(r"'[^']*'", "'...'", reason)
    return re.sub(r"\[[^\]]*\]", "[...]", reason)[:110]


def report(done: Sequence[Case], everything: bool) -> None:
    """Print refusals and failures, then a table by operator, then the counts."""
    for result in ("refused", "failed"):
        reasons: dict[str, list[str]] = defaultdict(list)
        for case in done:
            if case.result == result:
                reasons[_kind_of(case.reason)].append(case.name)
        for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
            shown = names if everything else names[:3]
            more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
            print(f"{result} {len(names):4}  {reason}\n      {', '.join(shown)}{more}")
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for case in done:
        for operator in case.operators:
            table[operator][case.result] += 1
    print(f"\n{'operator':32} passed failed refused")
    for operator, counts in sorted(table.items()):
        columns = (counts["passed"], counts["failed"], counts["refused"])
        print(f"{operator:32} {columns[0]:6} {columns[1]:6} {columns[2]:7}")
    fixed = [case for case in done if case.fixed and case.result == "passed"]
    whole = [case for case in fixed if case.graph is not None and not case.graph.inputs]
    print(
        f"\n{len(fixed)} of the passed tests take operands that the compiler must know from the "
        f"first run; in {len(whole)} of them those are all inputs"
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--no-c", action="store_true", help="the interpreter alone")
    parser.add_argument(
        "--board", action="append", default=[], help="run what passed on this board, too"
    )
    parser.add_argument("--list", action="store_true", help="name every test that did not pass")
    parser.add_argument("--json", metavar="FILE", help="write the result of each test here")
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    start = time.monotonic()
    with np.errstate(all="ignore"):
        done = [case for case in cases() if selected(case, args.patterns)]
        for case in done:
            interpret(case)
        if not args.no_c:
            in_c([case for case in done if case.result == "passed"])
        for board in args.board:
            on_board([case for case in done if case.result == "passed"], board)
    report(done, args.list)
    if args.json:
        results = {case.name: [case.result, case.reason] for case in done}
        Path(args.json).write_text(json.dumps(results, indent=1) + "\n")
    counts = Counter(case.result for case in done)
    print(f"{time.monotonic() - start:.0f} s")
    print(
        f"conformance: {counts['passed']} passed, {counts['failed']} failed, "
        f"{counts['refused']} refused of {len(done)}"
    )
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
