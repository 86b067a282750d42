"""A kernel of the user's: a header and a decorated function, from outside the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"

DOT = """\
#ifndef MINE_DOT_H
#define MINE_DOT_H
#include <stdint.h>
static inline int32_t mine_dot(const int8_t *a, const int8_t *b, int32_t count, int32_t sum) {
    for (int32_t i = 0; i < count; i++) {
        sum += (int32_t)a[i] * b[i];
    }
    return sum;
}
#endif
"""

HEADER = """\
#ifndef MINE_MATVEC_H
#define MINE_MATVEC_H
#include "hil/kernels/generic/fields.h"
#include "hil/quant.h"
#include "mine/dot.h"
/*@kernel
name = "mine_matvec_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "rows"
code = 100
[cost]
output = "rows * columns"
@*/
struct mine_matvec_s8 {
    int32_t rows;
    int32_t depth;
    int32_t columns;
    HIL_REQUANTIZATION_FIELDS;
    const int8_t *weights; /* [columns][depth] */
};
HIL_INLINE void mine_matvec_s8(const struct mine_matvec_s8 *p, const int8_t *in, int8_t *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t c = 0; c < p->columns; c++) {
            const int32_t own = p->per_channel ? c : 0;
            const int32_t sum =
                mine_dot(in + row * p->depth, p->weights + c * p->depth, p->depth, p->bias[c]);
            const int32_t value = hil_requantize(sum, p->multipliers[own], p->shifts[own]);
            *out++ = hil_clamp_s8(value + p->out_zero_point, p->out_min, p->out_max);
        }
    }
}
#endif
"""

SCRIPT = """\
import sys
import hil, hilc
from hil.oracle import reference_of
from hil.samples import RandomSamples
from hil.verify import verify
from hilc.lowering import KernelCall, lowers, register_kernels
from hilc.lowering.linear import MatrixProduct, linear_form
from mine_parameters import MineMatvecS8

register_kernels("kernels")

@lowers("FULLY_CONNECTED", dtypes={"int8"})
def mine(layer):
    form = linear_form(layer)
    assert isinstance(form, MatrixProduct)
    yield KernelCall(
        MineMatvecS8(
            rows=form.rows,
            depth=form.depth,
            columns=form.channels,
            requantization=form.requantization,
            weights=form.weights.reshape(-1),
        ),
        macs=form.macs,
    )

library = hilc.compile(sys.argv[1], cpu="cortex-m3")
(module,) = library.modules
assert "mine_matvec_s8(" in library.files["codegen/host/src/digits_lib1.c"].decode()
print(*sorted(path for path in library.files if "/include/mine/" in path))
samples = RandomSamples(module.inputs, seed=1, count=3)
with hil.open("mps2-an385", library) as device:
    report = verify(device["digits"], samples, reference_of(library, module), board="mps2-an385")
assert report.match
print("match")
"""


def test_an_own_kernel_runs_on_a_board(tmp_path: Path):
    folder = tmp_path / "kernels" / "mine"
    folder.mkdir(parents=True)
    (folder / "dot.h").write_text(DOT)
    (folder / "matvec.h").write_text(HEADER)
    (tmp_path / "kernels" / "costs").mkdir()
    costs = "mine_matvec_s8 = {output = 1}\n"
    (tmp_path / "kernels" / "costs" / "cortex-m3.toml").write_text(costs)
    (tmp_path / "use.py").write_text(SCRIPT)

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    module = python("-m", "hilc.lowering.write_parameters", "kernels")
    (tmp_path / "mine_parameters.py").write_text(module)
    assert python("use.py", str(EXAMPLE)).split("\n")[:2] == [
        "codegen/host/include/mine/dot.h codegen/host/include/mine/matvec.h",
        "match",
    ]
