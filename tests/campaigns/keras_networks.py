#!/usr/bin/env python3
"""Compare the networks of ``tests/keras_models`` with the reference: how many are equal.

    python tools/measure.py keras_networks [NETWORK...] [--board BOARD]... [--write] [--table]

Every file is compiled, its C runs on this host, and each layer is compared
with the reference, bytes of integers and floats within the bound of ``hil verify``. On each
``--board`` those run that are equal here, several in an image, and their outputs are compared.
Files that are refused stand under the operators that the refusal names. ``--table`` prints, too,
the rows of the tables in ``tests/hilc/test_keras.py`` as they are today, and ``--write`` writes the
counts into docs/reference/networks.md. Exits with 1 where an answer
differs that ``tests/support/models/keras_files.py`` does not explain.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import keras_files
from keras_files import (
    DIFFERENT,
    TYPES,
    KerasFile,
    compare_on_board,
    compare_on_host,
    compiled,
    images,
    reference_of_file,
    refused_by_tflm,
    refused_operators,
)
from marked import replaced
from marked import table as markdown

from hil.board import Board, load_board
from hil.cli.console import table
from hil.verify import Report
from hilc.errors import HilError, ModelError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "networks.md"
#: Files that are compiled before they are built: of two images of a board.
_GROUP = 48


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    networks = keras_files.listing()
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(networks))
    parser.add_argument("--board", action="append", default=[], help="run them there, too")
    parser.add_argument("--write", action="store_true", help=f"write the counts into {PAGE.name}")
    parser.add_argument("--table", action="store_true", help="print the tables of the test")
    args = parser.parse_args()
    if args.write and args.networks:
        parser.error("--write takes all networks")
    if unknown := set(args.networks) - set(networks):
        parser.error(f"unknown network {min(unknown)!r}: choose of {', '.join(networks)}")
    chosen = [f for f in keras_files.files() if not args.networks or f.network in args.networks]

    refusals: dict[KerasFile, ModelError] = {}
    reports: dict[KerasFile, Report] = {}
    for start in range(0, len(chosen), _GROUP):
        libraries = {}
        for file in chosen[start : start + _GROUP]:
            try:
                libraries[file] = compiled(file)
            except ModelError as error:
                refusals[file] = error
        if libraries:
            with tempfile.TemporaryDirectory() as folder:
                reports.update(compare_on_host(libraries, Path(folder)))
        _say(f"this machine: {min(start + _GROUP, len(chosen))} of {len(chosen)} files")
    _print_scores(chosen, reports)
    _print_refusals(refusals)
    equal = [file for file, report in reports.items() if report.match]
    places = {"this machine": reports}
    for name in args.board:
        places[name] = dict(_on_board(equal, load_board(name)))
        print(f"{name}: {sum(r.match for r in places[name].values())} of {len(equal)} are equal")
    for place, found in places.items():
        for file, report in found.items():
            if not report.match:
                layer = report.first_different_layer
                where = f", first in {layer.op} {layer.name}" if layer else ""
                print(f"{file.name} differs on {place}{where}")
    if args.table:
        _print_tables(refusals, reports)
    if args.write:
        text = replaced(PAGE.read_text(encoding="utf-8"), "keras", _counts(chosen, places))
        PAGE.write_text(text, encoding="utf-8")
    differ = {f.name for found in places.values() for f, r in found.items() if not r.match}
    lost = any(len(found) < len(equal) for found in places.values())
    return 1 if lost or differ - set(DIFFERENT) else 0


def _on_board(files: Sequence[KerasFile], board: Board) -> Iterator[tuple[KerasFile, Report]]:
    """Yield what came of each file; those of an image that fails are reported and left out."""
    options = {"cpu": board.cpu.name, "pools": "external"}
    for start in range(0, len(files), _GROUP):
        libraries = {file: compiled(file, **options) for file in files[start : start + _GROUP]}
        for image in images(libraries, board):
            try:
                yield from compare_on_board(image, board)
            except HilError as error:
                names = " ".join(file.name for file in image)
                print(f"an image failed on {board.name}: {error}\n  it has {names}")
        _say(f"{board.name}: {min(start + _GROUP, len(files))} of {len(files)} files")


def _say(progress: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {progress}", file=sys.stderr, flush=True)


def _counts(chosen: Sequence[KerasFile], places: Mapping[str, Mapping[KerasFile, Report]]) -> str:
    """Return the table of files that are equal, by type of the activations and place."""
    rows = []
    for kind in (*TYPES, "all"):
        own = {file for file in chosen if kind in (file.type, "all")}
        equal = [sum(r.match for f, r in found.items() if f in own) for found in places.values()]
        rows.append([kind, str(len(own)), *map(str, equal)])
    header = ["activations", "files", *(f"equal on {place}" for place in places)]
    return markdown(header, rows, "---:")


def _print_scores(chosen: list[KerasFile], reports: dict[KerasFile, Report]) -> None:
    rows = []
    for kind in (*TYPES, "all"):
        own = [file for file in chosen if kind in (file.type, "all")]
        compared = [file for file in own if file in reports]
        equal = sum(reports[file].match for file in compared)
        rows.append([kind, len(own), equal, len(compared) - equal, len(own) - len(compared)])
    print(table(rows, ["type", "files", "equal", "differ", "refused"]))


def _print_refusals(refusals: dict[KerasFile, ModelError]) -> None:
    files: Counter[str] = Counter()
    networks: dict[str, dict[str, None]] = defaultdict(dict)
    for file, error in refusals.items():
        for operator in refused_operators(error):
            files[operator] += 1
            networks[operator][file.network] = None
    rows = [[operator, n, " ".join(networks[operator])] for operator, n in files.most_common()]
    if rows:
        print()
        print(table(rows, ["refused because of", "files", "networks"]))


def _print_tables(refusals: dict[KerasFile, ModelError], compared: Collection[KerasFile]) -> None:
    """Print the rows of REFUSED and NOT_IN_TFLM."""
    print("\nREFUSED")
    _print_rows(
        (file, operator, _reason(error))
        for file, error in refusals.items()
        for operator in refused_operators(error)
    )
    print("\nNOT_IN_TFLM")
    by_tflm = {file: refused_by_tflm(file) for file in compared}
    _print_rows(
        (file, said, "litert-ref" if reference_of_file(file) == "litert-ref" else "no reference")
        for file, said in by_tflm.items()
        if said
    )


def _print_rows(refused: Iterable[tuple[KerasFile, str, str]]) -> None:
    """Print the networks of each operator, apart where the reasons or the forms are."""
    files: dict[tuple[str, str, str], set[KerasFile]] = defaultdict(set)
    for file, operator, reason in refused:
        files[operator, reason, file.network].add(file)
    rows: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (operator, reason, network), own in files.items():
        candidates = {
            f for f in keras_files.files() if f.network == network and operator in f.operators
        }
        rows[operator, reason, _forms(own, candidates)].append(network)
    for (operator, reason, forms), networks in sorted(rows.items()):
        shown = [f'"{word}"' for word in (operator, reason, " ".join(networks))]
        shown += [str(forms).replace("'", '"')] if forms else []
        print(f"    Refused({', '.join(shown)}),")


def _forms(own: set[KerasFile], candidates: set[KerasFile]) -> tuple[str, ...]:
    """Return what tells a network's files from its others: nothing, types, batches or both."""
    if own == candidates:
        return ()
    for forms in (
        {file.type for file in own},
        {file.batch for file in own},
        {f"{file.type}.{file.batch}" for file in own},
    ):
        if own == {file for file in candidates if any(file.has_form(form) for form in forms)}:
            return tuple(sorted(forms))
    raise AssertionError(f"{own} of {candidates}")


def _reason(error: ModelError) -> str:
    """Return what a refusal says, without the names and numbers of its model."""
    if "not supported" in error.fact and ": " not in error.fact:
        return "not implemented"
    said = error.fact.split(": ", 1)[1]
    return re.sub(r"'[^']*'(: )?|\(\w+\[[^\]]*\]\)", "", said).replace("  ", " ").strip()


if __name__ == "__main__":
    sys.exit(main())
