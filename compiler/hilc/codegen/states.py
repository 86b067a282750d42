"""C that resets the states of a model.

States have a pool of their own. A reset sets values of equal bytes with memset, and copies others
from an array in flash.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from hilc.codegen.constants import SECTION
from hilc.codegen.cwriter import CONSTANT_ALIGNMENT, c_array, c_comment
from hilc.codegen.names import Names
from hilc.memory.plan import Program

_Bytes = npt.NDArray[np.uint8]


def state_pool(program: Program) -> int:
    """Return the index of the pool that holds the states."""
    return next(index for index, pool in enumerate(program.pools) if pool.persistent)


def reset_values(program: Program, names: Names) -> Iterable[str]:
    """Return the definitions of the arrays that :func:`reset_statements` copies from."""
    for index, data in enumerate(_resets(program)):
        if not _is_uniform(data):
            name = program.graph.states[index].name
            section = "" if names.plain else f'section("{SECTION}"), '
            declaration = f"__attribute__(({section}aligned({CONSTANT_ALIGNMENT})))\nstatic const"
            comment = c_comment(f'What a reset makes of the state "{name}".')
            yield comment + c_array(_value(names, index), data, declaration)


def reset_bytes(program: Program) -> int:
    """Flash that these arrays take."""
    return sum(
        -(-data.nbytes // CONSTANT_ALIGNMENT) * CONSTANT_ALIGNMENT
        for data in _resets(program)
        if not _is_uniform(data)
    )


def _value(names: Names, index: int) -> str:
    return names.local(f"reset_value_{index}")


def reset_statements(program: Program, pool: str, names: Names) -> str:
    """Statements that reset the states in the pool at the C expression ``pool``."""
    lines = []
    for index, (state, data) in enumerate(zip(program.graph.states, _resets(program), strict=True)):
        target = f"&{pool}[{program.buffers[state.name].value}]"
        if _is_uniform(data):
            lines.append(f"    memset({target}, {data[0]}, {data.size});\n")
        else:
            lines.append(f"    memcpy({target}, {_value(names, index)}, {data.size});\n")
    return "".join(lines)


def _resets(program: Program) -> Iterable[_Bytes]:
    """Return the bytes of each state after a reset."""
    graph = program.graph
    for state in graph.states:
        value = graph.reset_value(state)
        little_endian = value.astype(value.dtype.newbyteorder("<"))
        yield np.frombuffer(little_endian.tobytes(), np.uint8)


def _is_uniform(data: _Bytes) -> bool:
    return bool((data == data[0]).all())
