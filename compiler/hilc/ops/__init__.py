"""The operator table.

A new operator is one module of this package: its ``OPERATORS`` names each
:class:`~hilc.ops.opdef.OpDef`, which says what the compiler must know of it. :func:`register` adds
one from outside the package. ``TFLM_LACKS`` and ``LITERT_LACKS`` of the module state element types
of its operators that a reference does not compute, where there are some.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from hilc.errors import InputError
from hilc.ir import Numerics
from hilc.ops.opdef import OpDef

_OPS: dict[str, OpDef] = {}
_LACKED: dict[Numerics, dict[str, Set[str]]] = {Numerics.TFLM: {}, Numerics.LITERT: {}}
#: The constants of modules that state what a reference lacks.
_STATEMENTS = {Numerics.TFLM: "TFLM_LACKS", Numerics.LITERT: "LITERT_LACKS"}

#: Operators by name. Those of TFLite have the name that its schema gives them.
OPS: Mapping[str, OpDef] = MappingProxyType(_OPS)

#: By reference and operator, the element types that the reference's kernels do not take.
LACKED_TYPES: Mapping[Numerics, Mapping[str, Set[str]]] = MappingProxyType(_LACKED)


def register(name: str, operator: OpDef) -> None:
    """Add an operator to :data:`OPS`.

    :class:`~hilc.errors.InputError` where the name is taken, or its class of attributes has no
    fields whose values could be checked (:mod:`hilc.ops.attributes`).

    Raise :class:`~hilc.errors.InputError` if its name is in use, or its attributes cannot be
    checked.
    """
    if name in _OPS:
        raise InputError(f"there is an operator {name!r} already", "give yours another name")
    try:
        _ = operator.attribute_types
    except TypeError as error:
        raise InputError(
            f"the attributes of operator {name!r} cannot be checked: {error}",
            "declare them as hilc.ops.attributes says",
        ) from None
    _OPS[name] = operator


def _discover() -> None:
    """Add the operators of every module of this package to the table."""
    for found in iter_modules(__path__, f"{__name__}."):
        module = import_module(found.name)
        operators: Mapping[str, OpDef] = getattr(module, "OPERATORS", {})
        if twice := operators.keys() & _OPS.keys():
            raise AssertionError(f"{found.name} defines {sorted(twice)}, which are defined already")
        _OPS.update(operators)
        for reference, name in _STATEMENTS.items():
            lacked: Mapping[str, Set[str]] = getattr(module, name, {})
            if others := lacked.keys() - operators.keys():
                raise AssertionError(f"{name} of {found.name} names {sorted(others)}, not its own")
            _LACKED[reference].update(lacked)


# Last, as modules that check graphs import the table.
_discover()
