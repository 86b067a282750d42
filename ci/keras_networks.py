#!/usr/bin/env python3
"""Compare the networks of ``tests/keras_models`` with the reference: how many are equal.

    python ci/keras_networks.py [NETWORK...] [--table]

``make keras`` runs it. Every file is compiled, its C runs on this host, and each layer is compared
with the reference, bytes of integers and floats within the bound of ``hil verify``. Files that are
refused stand under the operators that the refusal names. ``--table`` prints, too, the rows of
``REFUSED`` in ``tests/hilc/test_keras.py`` as they are today. Exits with 1 where an answer differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import keras_files
from keras_files import TYPES, KerasFile, compare_on_host, compiled, refused_operators

from hil.cli.console import table
from hil.verify import Report
from hilc.errors import ModelError

_GROUP = 40


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    networks = keras_files.listing()
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(networks))
    parser.add_argument("--table", action="store_true", help="print the rows of REFUSED")
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
        _print_table(refusals)
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


def _print_table(refusals: dict[KerasFile, ModelError]) -> None:
    """Print what REFUSED must say: the networks of each operator, by types."""
    types: dict[tuple[str, str], set[str]] = defaultdict(set)
    for file, error in refusals.items():
        for operator in refused_operators(error):
            types[operator, file.network].add(file.type)
    rows: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (operator, network), own in types.items():
        others = {f.type for f in keras_files.files() if f.network == network} - own
        rows[operator, tuple(sorted(own)) if others else ()].append(network)
    print()
    for (operator, chosen), networks in sorted(rows.items()):
        print(f"{operator} {' '.join(chosen) or 'all types'}: {' '.join(networks)}")


if __name__ == "__main__":
    sys.exit(main())
