"""Proofs about the code that is generated for the models of MLPerf Tiny."""

from __future__ import annotations

import time
from pathlib import Path

from model_proofs import BY_TABLE, prove
from models import INT8_MODELS, model_path

from hilc.source import prepare
from hilc.target import get_cpu
from torture.campaign import Budget, Figures, Finding

TITLE = "Proofs about generated code"
ABOUT = """Checks each layer of a model with each portable kernel that can compute it and with the
layer's parameters. Addresses and loops: clang's intermediate form of the kernel shows that no
address or branch depends on data. One run between the bounds of its arrays, with the address and
undefined-behaviour sanitizers, is therefore valid for every input. Sums: every possible sum of a
channel passes through the kernel's arithmetic with the undefined-behaviour sanitizer, and must give
the specification's output. Additions run on all pairs of inputs, pools on all sums of a window, the
softmax on all sums of a row. [Soundness](../SOUNDNESS.md) states what follows from this. Findings:
a different output, an overflow, an access outside of bounds, an address or a branch that depends on
data, and a kernel without a proof."""

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits.tflite"
#: Seconds for a model.
LIMIT_S = 600


def run(budget: Budget) -> Figures:
    """Prove all models, or the two whose proofs take least."""
    paths = {"digits": DIGITS}
    for name in INT8_MODELS if budget.is_long else ("kws",):
        paths[name] = model_path(name)
    rows = []
    findings = []
    for name, path in paths.items():
        start = time.monotonic()
        proof = prove(prepare(path, None, get_cpu("host")).graph)
        seconds = time.monotonic() - start
        rows.append(
            [
                name,
                f"{proof.layers}",
                f"{len(proof.kernels)}",
                f"{proof.calls}",
                f"{proof.covered:,}",
                f"{proof.checked:,}",
                f"{len(proof.faults)}",
                f"{seconds:.0f}",
            ]
        )
        findings += [Finding(fault, f"model {name}") for fault in proof.faults]
        if seconds > LIMIT_S:
            findings.append(Finding(f"the proofs of {name} took {seconds:.0f} s", f"{LIMIT_S} s"))
    return Figures(
        [
            "model",
            "layers",
            "portable kernels",
            "layers times kernels",
            "sums and pairs",
            "of them run",
            "failed",
            "seconds",
        ],  # fmt: skip
        rows,
        findings,
        [
            "Sums and pairs: of every channel by itself. Run: channels with equal parameters share "
            "their sums.",
            f"Inputs choose entries of a table in {', '.join(sorted(BY_TABLE))}: it runs on every "
            "distance between two inputs.",
        ],
    )
