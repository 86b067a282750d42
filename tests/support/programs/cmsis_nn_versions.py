"""The stand-in for CMSIS-NN (tests/cmsis_nn) with the signatures and demands of its versions.

The stand-in itself is version 7. From version to version changed what callers of fully connected
layers have to know: whether there is a wrapper for several factors, and what with Helium is to be
in the sums of the weights.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

STAND_IN = Path(__file__).resolve().parents[2] / "cmsis_nn"
VERSIONS = (5, 6, 7)

#: The parameters of arm_vector_sum_s8 behind the weights.
_SUM_PARAMETERS = {5: "", 6: ", const int32_t lhs_offset, const int32_t *bias_data"}
_WRAPPER = r"arm_cmsis_nn_status\s+arm_fully_connected_wrapper_s8"


def stand_in(version: int, folder: Path) -> Path:
    """A tree like that of ``version``, below ``folder``."""
    tree = Path(shutil.copytree(STAND_IN, folder / f"cmsis_nn_{version}"))
    header = tree / "Include/arm_nnfunctions.h"
    if version < 5:
        _edit(header, r"arm_cmsis_nn_status arm_vector_sum_s8[^;]*;", "")
    elif version < 7:
        _before_7(tree / "Source/FullyConnectedFunctions", header, _SUM_PARAMETERS[version])
    return tree


def _before_7(folder: Path, header: Path, parameters: str) -> None:
    layers, sums = folder / "arm_fully_connected_s8.c", folder / "arm_vector_sum_s8.c"
    # One factor a layer: the wrapper is only how the stand-in computes it.
    _edit(header, rf"{_WRAPPER}[^;]*;", "")
    _edit(layers, _WRAPPER, "static int layer")
    _edit(layers, "arm_fully_connected_wrapper_s8", "layer")
    # The layer itself adds the bias, and the offset times the sum of the weights.
    _edit(layers, "bias_data = ctx->buf;", "const int32_t *const sums = ctx->buf;")
    _edit(
        layers,
        r"int32_t sum = bias_data\[c\];",
        "int32_t sum = bias_data[c];\n#ifdef ARM_MATH_MVEI\n"
        "sum += fc_params->input_offset * sums[c];\n#endif",
    )
    for path in (header, sums):
        _edit(path, r"(?<=int8_t \*vector_data),\s+const int32_t lhs_offset[^)]*", parameters)
    _edit(sums, r" \+ rhs_offset", "")
    value = "sum * lhs_offset + (bias_data ? bias_data[row] : 0)" if parameters else "sum"
    _edit(sums, r"sum \* lhs_offset \+ bias_data\[row\]", value)


def _edit(path: Path, pattern: str, text: str) -> None:
    edited, count = re.subn(pattern, lambda _: text, path.read_text())
    assert count, f"{path.name} has no {pattern}"
    path.write_text(edited)
