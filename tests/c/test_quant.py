"""Quantized arithmetic in C against the shared vectors; tests/hilc/test_quant.py is its twin."""

from __future__ import annotations

import json
import subprocess

import pytest
from kernel_runner import SANITIZERS, WARNINGS, compiler
from vector_files import vector_file

from hilc.support.resources import data_dir

VECTORS = json.loads(vector_file("quant.json").read_text(encoding="utf-8"))

_PROGRAM = """\
#include <stdio.h>
#include "hil/quant.h"

static const int32_t rows[][{columns}] = {{
{rows}
}};

int main(void) {{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {{
        const int32_t *const v = rows[i];
        const int32_t result = {call};
        if (result != v[{columns} - 1]) {{
            printf("row %zu: %ld, expected %ld\\n", i, (long)result, (long)v[{columns} - 1]);
        }}
    }}
    return 0;
}}
"""

CALLS = {
    "doubling_high_mul": "hil_doubling_high_mul(v[0], v[1])",
    "rounding_divide_by_pot": "hil_rounding_divide_by_pot(v[0], v[1])",
    "requantize": "hil_requantize(v[0], v[1], v[2])",
    "requantize_halves": "hil_requantize_halves(v[0], v[1], v[2])",
    "requantize_narrow": "hil_requantize_narrow(v[0], v[1], v[2], v[3])",
    "requantize_half_up": "hil_requantize_half_up(v[0], v[1], v[2])",
    "requantize_half_up_narrow": "hil_requantize_half_up_narrow(v[0], v[1], v[2], v[3])",
    "requantize_even": "hil_requantize_even(v[0], v[1], v[2])",
    "requantize_wide_even": "hil_requantize_wide_even("
    "(int64_t)v[0] * 4294967296 + (uint32_t)v[1], v[2], v[3])",
    "high_word_halves": "hil_high_word_halves(v[0], v[1])",
    "clamp_s8": "hil_clamp_s8(v[0], v[1], v[2])",
}
_LEAST, _MOST = -(2**31), 2**31 - 1
CLAMPS = [
    [x, low, high, min(max(x, low), high)]
    for x in (_LEAST, -129, -128, -7, 0, 5, 127, 128, _MOST)
    for low, high in ((-128, 127), (-6, 127), (-128, 4), (-6, 4), (0, 0))
]


#: Upper words of products.
UPPER = [[x, m, x * m >> 32] for x, m, *_ in VECTORS["requantize"]]


def literal(value: int) -> str:
    return "INT32_MIN" if value == _LEAST else str(value)


@pytest.mark.parametrize("optimisation", ["-O0", "-O2"])
@pytest.mark.parametrize("name", CALLS)
def test_vectors(name, optimisation, tmp_path):
    own = {"clamp_s8": CLAMPS, "high_word_halves": UPPER}
    rows = own[name] if name in own else VECTORS[name.removesuffix("_halves")]
    text = ",\n".join(f"    {{{', '.join(map(literal, row))}}}" for row in rows)
    program = _PROGRAM.format(columns=len(rows[0]), rows=text, call=CALLS[name])
    (tmp_path / "vectors.c").write_text(program, encoding="utf-8")
    include = data_dir("runtime") / "include"
    subprocess.run(
        [
            compiler(),
            *WARNINGS,
            *SANITIZERS,
            optimisation,
            f"-I{include}",
            "vectors.c",
            "-o",
            "vectors",
        ],
        cwd=tmp_path,
        check=True,
    )
    result = subprocess.run(
        [tmp_path / "vectors"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
