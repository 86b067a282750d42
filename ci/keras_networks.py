#!/usr/bin/env python3
"""Compare the networks of ``tests/keras_models`` with the reference: how many are equal.

    python ci/keras_networks.py [NETWORK...] [--table]

``make keras`` runs it. Every file is compiled, its C runs on this host, and each layer is compared
with the reference, bytes of integers and floats within the bound of ``hil verify``. Files that are
refused stand under the operators that the refusal names. ``--table`` prints, too, the rows of the
tables in ``tests/hilc/test_keras.py`` as they are today. Exits with 1 where an answer differs.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import keras_files
from keras_files import (
    TYPES,
    KerasFile,
    compare_on_host,
    compiled,
    reference_of_file,
    refused_by_tflm,
    refused_operators,
)

from hil.cli.console import table
from hil.verify import Report
from hilc.errors import ModelError

_GROUP = 40


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    networks = keras_files.listing()
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(networks))
    parser.add_argument("--table", action="store_true", help="print the tables of the test")
    args = parser.parse_args()
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
    _print_scores(chosen, reports)
    _print_refusals(refusals)
    for file, report in reports.items():
        if not report.match:
            layer = report.first_different_layer
            print(f"{file.name} differs, first in {layer and layer.op} {layer and layer.name}")
    if args.table:
        _print_tables(refusals, reports)
    return 0 if all(report.match for report in reports.values()) else 1


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
