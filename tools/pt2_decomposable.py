#!/usr/bin/env python3
"""Writes compiler/hilc/frontends/pt2/decomposable.py: what ``run_decompositions()`` replaces.

It lists the operators that PyTorch replaces so and the compiler does not translate. It needs the
extra ``torch``.
"""

from __future__ import annotations

from pathlib import Path

import torch

from hilc.frontends.pt2 import translators
from hilc.frontends.pt2.model import translator_of

assert translators

TARGET = Path(__file__).resolve().parents[1] / "compiler/hilc/frontends/pt2/decomposable.py"
#: Parts of names of operators that no inference on tensors of numbers calls.
_APART = (
    "_test", "backward", "cufft", "fbgemm", "flash", "is_", "nnpack", "prepack", "quantize",
    "sparse", "vulkan", "zerotensor", "_batch_dim", "_cast_", "grad", "_use_cudnn", "_version",
)  # fmt: skip

HEAD = '''"""Operators without a translator that ``run_decompositions()`` of PyTorch replaces.

Written by tools/pt2_decomposable.py.
"""

from __future__ import annotations

#: Names without ``aten.`` and the overload.
DECOMPOSABLE = frozenset(
    [
'''


def names() -> list[str]:
    """Return the names of the operators, in order."""
    table = [str(operator).split(".") for operator in torch.export.default_decompositions()]
    found = {parts[1] for parts in table if parts[0] == "aten" and parts[-1] != "out"}
    return sorted(
        name
        for name in found
        if not name.endswith("_")
        and not any(part in name for part in _APART)
        and translator_of(f"aten.{name}.default") is None
    )


def main() -> None:
    listed = "".join(f'        "{name}",\n' for name in names())
    TARGET.write_text(f"{HEAD}{listed}    ]\n)\n")


if __name__ == "__main__":
    main()
