"""Parameter structs of kernels as C definitions, for programs that call kernels directly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hilc.codegen.cwriter import CONSTANT, c_array, c_struct_initialiser
from hilc.lowering.fields import FieldValue


def c_parameters(
    struct_tag: str,
    name: str,
    fields: Mapping[str, FieldValue],
    declaration: str = CONSTANT,
) -> str:
    """Return the definitions of a kernel's parameter struct called ``name`` and of its arrays."""
    arrays = {
        field: f"{name}_{field}" for field, value in fields.items() if isinstance(value, np.ndarray)
    }
    definitions = [
        c_array(arrays[field], value, declaration)
        for field, value in fields.items()
        if isinstance(value, np.ndarray)
    ]
    struct = c_struct_initialiser(fields, arrays)
    return "\n".join([*definitions, f"{declaration} struct {struct_tag} {name} = {struct};\n"])
