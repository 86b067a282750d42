"""ONNX's whole backend suite through the compiler: ``measure.py conformance``.

Every test of the installed ``onnx`` (node, simple, pytorch-converted, pytorch-operator) is read,
specialized with the inputs of its first run where the compiler must know some, run by the
interpreter and, in bulk, by generated C on this machine; both must agree with the test's expected
outputs by the suite's own tolerance. What passes there runs on emulated boards, many tests in one
image. What is not read is refused, with a reason; the reasons are listed by count. The last lines
are ``conformance on BOARD: P passed, F failed, R refused of T`` for each board, and
``conformance: P passed, F failed, R refused of T``. A run of all tests with both boards writes
``docs/reference/conformance.md``.

    python tools/measure.py conformance [PATTERN ...] [--no-c] [--board NAME] [--list] [--json FILE]
                             [--known FILE]

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from marked import replaced, table
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import hil
import hilc
import hilc.host
from hil.board import load_board
from hil.errors import InputError
from hil.firmware.fit import FitError
from hilc.errors import HilError
from hilc.frontends.onnx.storage import packed, unpacked
from hilc.interpreter import run
from hilc.ir import Array, Graph
from hilc.onnx_backend import specialized
from hilc.references.onnx_runtime import Session

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
#: Two last bits of float16; the suite itself allows bfloat16 two of its own.
HALF_BOUND = 2.0**-9
#: By how much outputs may be off whose expected values carry the rounding of numpy's transforms in
#: single precision, where the right value is 0.
BOUNDS = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}
#: Tests whose expected outputs ``onnx.reference`` computed by a fractional ``length_resized``; the
#: standard has the length of the output. Here onnxruntime's outputs are expected.
AGAINST_THE_STANDARD = (
    "test_resize_downsample_scales_cubic_align_corners",
    "test_resize_downsample_scales_linear_align_corners",
)
#: Inputs or outputs, and nodes, of the model that many tests become.
MOST_TENSORS, MOST_NODES = 240, 300
#: This machine, and the boards of the page with their cores.
HOST = "host"
BOARDS = {"mps2-an386": "Cortex-M4", "mps3-an547": "Cortex-M55"}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "conformance.md"


@dataclass
class Case:
    """A test of the suite, and what became of it."""

    #: Its place in the suite, by which its code is named.
    number: int
    name: str
    model: onnx.ModelProto
    sets: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float
    #: By place ``passed``, ``failed`` or ``refused``, and why.
    results: dict[str, tuple[str, str]] = field(default_factory=dict)
    graph: Graph | None = None
    #: The inputs that were taken as constants from the first run.
    fixed: frozenset[str] = field(default_factory=frozenset)

    @property
    def operators(self) -> list[str]:
        """The operators of the model, once each."""
        return sorted({node.op_type for node in self.model.graph.node})

    @property
    def prefix(self) -> str:
        """Return what its tensors' names begin with among those of other tests."""
        return f"t{self.number}_"

    def set_of(self, turn: int) -> tuple[list[Any], list[Any]]:
        """Return the inputs and outputs of a run; the last ones where it has fewer."""
        return self.sets[min(turn, len(self.sets) - 1)]

    def result(self, place: str = HOST) -> str:
        """Return what became of it at a place; empty where it did not run."""
        return self.results.get(place, ("", ""))[0]

    def end(self, place: str, result: str, reason: str = "") -> None:
        """Record a result; the first one that is no pass stays."""
        if self.result(place) not in ("failed", "refused"):
            self.results[place] = result, reason


def cases() -> Iterator[Case]:
    """Yield the tests of the suite."""
    tests = (test for kind in KINDS for test in load_model_tests(kind=kind))
    for number, test in enumerate(tests):
        model, sets = test.model, test.data_sets
        if model is None:
            model, sets = _on_disk(Path(test.model_dir))
        else:
            sets = [([_value(x) for x in xs], [_value(y) for y in ys]) for xs, ys in sets]
        if test.name in AGAINST_THE_STANDARD:
            sets = [(inputs, _by_onnxruntime(model, inputs)) for inputs, _ in sets]
        yield Case(number, test.name, model, sets, test.rtol, test.atol)


def _by_onnxruntime(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any]:
    """Return what onnxruntime computes of a test."""
    names = [value.name for value in model.graph.input]
    values = Session(model.SerializeToString()).run(dict(zip(names, inputs, strict=True)))
    return [values[value.name] for value in model.graph.output]


def _on_disk(folder: Path) -> tuple[onnx.ModelProto, list[tuple[list[Any], list[Any]]]]:
    model = onnx.load(folder / "model.onnx")
    sets = [
        (_protos(data, "input", model.graph.input), _protos(data, "output", model.graph.output))
        for data in sorted(folder.glob("test_data_set*"))
    ]
    return model, sets


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
                case.end(HOST, "refused", "an operand that must be constant changes between runs")
                return
            given = {name: packed(np.asarray(values[name])) for name in case.graph.inputs}
            results = run(case.graph, given)
            outputs = [results[name] for name in case.graph.outputs]
            difference = compared(case, outputs, expected)
            if difference:
                case.end(HOST, "failed", f"interpreter: {difference}")
                return
    except HilError as error:
        case.end(HOST, "refused", error.fact)
        return
    except Exception as error:
        case.end(HOST, "failed", f"interpreter: {type(error).__name__}: {error}")
        return
    case.end(HOST, "passed")


def compared(case: Case, outputs: Sequence[Array], expected: Sequence[Any]) -> str:
    """Return in what the outputs differ from the expected ones, by the suite's own comparison."""
    rtol = max(case.rtol, HALF_BOUND) if _is_half(expected) else case.rtol
    atol = max(case.atol, BOUNDS.get(case.name, 0.0))
    codes = [value.type.tensor_type.elem_type for value in case.model.graph.output]
    real = [unpacked(output, code) for output, code in zip(outputs, codes, strict=True)]
    try:
        Runner.assert_similar_outputs(expected, real, rtol, atol)
    except (AssertionError, TypeError) as error:
        return " ".join(str(error).split())[:200]
    return ""


def passed(done: Sequence[Case], place: str = HOST) -> list[Case]:
    """Return the tests that passed at a place."""
    return [case for case in done if case.result(place) == "passed"]


def together(chosen: Sequence[Case]) -> Graph:
    """Return one graph of those of several tests, which one run computes all."""
    parts = [_numbered(case) for case in chosen]
    return Graph(
        "tests",
        {name: tensor for part in parts for name, tensor in part.tensors.items()},
        tuple(replace(node, index=i) for i, node in enumerate(n for g in parts for n in g.nodes)),
        tuple(name for part in parts for name in part.inputs),
        tuple(name for part in parts for name in part.outputs),
    )


def _numbered(case: Case) -> Graph:
    """Return the graph of a test, its number in the names of its tensors."""
    graph = case.graph
    assert graph is not None
    assert not graph.states

    def new(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{case.prefix}{name}" if name else "" for name in names)

    tensors = {
        f"{case.prefix}{name}": replace(tensor, name=f"{case.prefix}{name}", data=tensor.data)
        for name, tensor in graph.tensors.items()
    }
    nodes = [replace(n, inputs=new(n.inputs), outputs=new(n.outputs)) for n in graph.nodes]
    return Graph("test", tensors, tuple(nodes), new(graph.inputs), new(graph.outputs))


def bulks(chosen: Sequence[Case]) -> Iterator[list[Case]]:
    """Yield tests in order, as many together as one model takes."""
    bulk: list[Case] = []
    tensors = nodes = 0
    for case in chosen:
        assert case.graph is not None
        tensors += max(len(case.graph.inputs), len(case.graph.outputs))
        nodes += len(case.graph.nodes)
        if bulk and (tensors > MOST_TENSORS or nodes > MOST_NODES):
            yield bulk
            bulk, tensors, nodes = [], len(case.graph.inputs), len(case.graph.nodes)
        bulk.append(case)
    if bulk:
        yield bulk


def in_c(chosen: Sequence[Case], place: str) -> None:
    """Run tests by generated C at a place, many in one model."""
    finished = 0
    for bulk in bulks(chosen):
        _run_in_c(bulk, place)
        finished += len(bulk)
        print(f"\r{place}: {finished} of {len(chosen)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def _run_in_c(bulk: Sequence[Case], place: str) -> None:
    """Run tests of one model; halves of it where it is refused, does not fit or does not end."""
    try:
        with _started(together(bulk), place) as model:
            differences = _differences(bulk, model)
    except Exception as error:
        if len(bulk) > 1:
            middle = len(bulk) // 2
            _run_in_c(bulk[:middle], place)
            _run_in_c(bulk[middle:], place)
            return
        said = error.fact if isinstance(error, HilError) else f"{type(error).__name__}: {error}"
        result = "refused" if isinstance(error, (InputError, FitError)) else "failed"
        bulk[0].end(place, result, f"in C: {said}")
        return
    for case, difference in zip(bulk, differences, strict=True):
        case.end(place, "failed" if difference else "passed", difference and f"in C: {difference}")


@contextmanager
def _started(graph: Graph, place: str) -> Iterator[Any]:
    """Give a model that runs at a place."""
    if place == HOST:
        with hilc.host.load(hilc.compile(graph, cpu="host")) as model:
            yield model
        return
    board = load_board(place)
    library = hilc.compile(graph, cpu=board.cpu.name, pools="external")
    with hil.open(board, library) as device:
        yield device[library.modules[0].name]


def _differences(bulk: Sequence[Case], model: Any) -> list[str]:
    """Return in what each test's outputs differ from the expected ones, over all of its runs."""
    found = [""] * len(bulk)
    for turn in range(max(len(case.sets) for case in bulk)):
        for case in bulk:
            graph, (inputs, _) = case.graph, case.set_of(turn)
            assert graph is not None
            names = [value.name for value in case.model.graph.input]
            values = dict(zip(names, inputs, strict=False))
            for name in graph.inputs:
                model.set_input(f"{case.prefix}{name}", packed(np.asarray(values[name])))
        model.run()
        for i, case in enumerate(bulk):
            assert case.graph is not None
            names = [f"{case.prefix}{name}" for name in case.graph.outputs]
            outputs = [np.asarray(model.get_output(name)) for name in names]
            found[i] = found[i] or compared(case, outputs, case.set_of(turn)[1])
    return found


def take_known(
    done: Sequence[Case], known: Mapping[str, Mapping[str, Sequence[str]]], places: Sequence[str]
) -> None:
    """Give tests that passed at all places in an earlier run the results of that."""
    for case in done:
        results = known.get(case.name, {})
        if all(results.get(place, ("",))[0] == "passed" for place in places):
            case.results = {place: ("passed", "") for place in places}


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


def reasons(done: Sequence[Case], result: str, place: str) -> list[tuple[str, list[str]]]:
    """Return the kinds of reasons of a result, the most frequent first, with tests' names."""
    found: dict[str, list[str]] = defaultdict(list)
    for case in done:
        if case.result(place) == result:
            found[_kind_of(case.results[place][1])].append(case.name)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def by_operator(done: Sequence[Case], places: Sequence[str]) -> list[list[str]]:
    """Return a row for each operator: what passed, failed and was refused at each place."""
    tallies: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for case in done:
        for operator in case.operators:
            tallies[operator].update((place, case.result(place)) for place in places)
    return [
        [name]
        + [str(counts[place, result]) for place in places for result in ("passed", "failed")]
        + [str(counts[HOST, "refused"])]
        for name, counts in sorted(tallies.items())
    ]


def lines(done: Sequence[Case], places: Sequence[str]) -> list[str]:
    """Return the last lines; of a board those tests count that passed on this machine."""
    found = []
    for place in (*(p for p in places if p != HOST), HOST):
        ran = [case for case in done if case.result(place)]
        counts = Counter(case.result(place) for case in ran)
        where = "" if place == HOST else f" on {place}"
        found.append(
            f"conformance{where}: {counts['passed']} passed, {counts['failed']} failed, "
            f"{counts['refused']} refused of {len(ran)}"
        )
    return found


def report(done: Sequence[Case], places: Sequence[str], everything: bool) -> None:
    """Print refusals and failures, then a table by operator."""
    for place in places:
        for result in ("refused", "failed"):
            for reason, names in reasons(done, result, place):
                shown = names if everything else names[:3]
                more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
                print(f"{place}: {result} {len(names):4}  {reason}\n      {', '.join(shown)}{more}")
    heads = ["operator", *(f"{p} {r}" for p in places for r in ("passed", "failed")), "refused"]
    widths = [-32, *(len(head) for head in heads[1:])]
    for row in [heads, *by_operator(done, places)]:
        cells = zip(row, widths, strict=True)
        print(*(c.rjust(width) if width > 0 else c.ljust(-width) for c, width in cells))
    fixed = [case for case in passed(done) if case.fixed]
    whole = [case for case in fixed if case.graph is not None and not case.graph.inputs]
    print(
        f"\n{len(fixed)} of the passed tests take operands that the compiler must know from the "
        f"first run; in {len(whole)} of them those are all inputs"
    )


def page(done: Sequence[Case]) -> str:
    """Return the generated part of the page."""
    places = [HOST, *BOARDS]
    heads = ["operator", "this machine", *BOARDS.values(), "refused"]
    rows = []
    for name, *cells in by_operator(done, places):
        *counts, refused = cells
        marks = [
            (p if p != "0" else "-") + (f" ({f} failed)" if f != "0" else "")
            for p, f in zip(counts[::2], counts[1::2], strict=True)
        ]
        rows.append([f"`{name}`", *marks, refused if refused != "0" else ""])
    refusals = [
        [str(len(names)), reason.replace("|", "\\|"), ", ".join(f"`{n}`" for n in names[:2])]
        for reason, names in reasons(done, "refused", HOST)
    ]
    return "\n\n".join(
        [
            f"The suite of onnx {onnx.__version__}:",
            table(heads, rows),
            "## What is refused",
            table(["tests", "reason", "such as"], refusals),
            "## Counts",
            "```text\n" + "\n".join(lines(done, places)) + "\n```",
        ]
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
    parser.add_argument(
        "--known",
        metavar="FILE",
        help="results of an earlier run: what passed there everywhere does not run again",
    )
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    start = time.monotonic()
    places = [HOST, *args.board]
    with np.errstate(all="ignore"):
        done = [case for case in cases() if selected(case, args.patterns)]
        if args.known:
            take_known(done, json.loads(Path(args.known).read_text(encoding="utf-8")), places)
        rest = [case for case in done if not case.results]
        for case in rest:
            interpret(case)
        if not args.no_c:
            for place in places:
                in_c(passed(rest), place)
    report(done, places, args.list)
    if args.json:
        results = {case.name: case.results for case in done}
        Path(args.json).write_text(json.dumps(results, indent=1) + "\n")
    if not args.patterns and not args.no_c and set(BOARDS) <= set(places):
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(replaced(text, "conformance", page(done)), encoding="utf-8")
    print(f"{time.monotonic() - start:.0f} s")
    print(*lines(done, places), sep="\n")
    return 1 if any(case.result(place) == "failed" for case in done for place in places) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
