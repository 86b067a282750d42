"""The operator table.

A new operator is one module of this package: its ``OPERATORS`` names each
:class:`~hilc.ops.opdef.OpDef`, which says what the compiler must know of it. :func:`register` adds
one from outside the package. ``TFLM_LACKS`` and ``LITERT_LACKS`` of the module state element types
of its operators that a reference does not compute, where there are some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from hilc.errors import InputError
from hilc.ir import Numerics
from hilc.ops.opdef import OpDef

#: The constants of modules that state what a reference lacks.
_STATEMENTS = {Numerics.TFLM: "TFLM_LACKS", Numerics.LITERT: "LITERT_LACKS"}


class _Operators(Mapping[str, OpDef]):
    """The operators. The modules that define them are imported when the first is looked up: a
    command that only reads a compiled library needs none.
    """

    def __getitem__(self, name: str) -> OpDef:
        return _tables()[0][name]

    def __iter__(self) -> Iterator[str]:
        return iter(_tables()[0])

    def __len__(self) -> int:
        return len(_tables()[0])


#: Operators by name. Those of TFLite have the name that its schema gives them.
OPS: Mapping[str, OpDef] = _Operators()


def lacked_types(reference: Numerics) -> Mapping[str, Set[str]]:
    """Return, by operator, the element types that the reference's kernels do not take."""
    return _tables()[1][reference]


def register(name: str, operator: OpDef) -> None:
    """Add an operator to :data:`OPS`.

    :class:`~hilc.errors.InputError` where the name is taken, or its class of attributes has no
    fields whose values could be checked (:mod:`hilc.ops.attributes`).

    Raise :class:`~hilc.errors.InputError` if its name is in use, or its attributes cannot be
    checked.
    """
    if name in OPS:
        raise InputError(f"there is an operator {name!r} already", "give yours another name")
    try:
        _ = operator.attribute_types
    except TypeError as error:
        raise InputError(
            f"the attributes of operator {name!r} cannot be checked: {error}",
            "declare them as hilc.ops.attributes says",
        ) from None
    _tables()[0][name] = operator


@cache
def _tables() -> tuple[dict[str, OpDef], Mapping[Numerics, dict[str, Set[str]]]]:
    """Return the operators of every module of this package, and the types that references lack."""
    operators_by_name: dict[str, OpDef] = {}
    lacked_by_reference: dict[Numerics, dict[str, Set[str]]] = {
        Numerics.TFLM: {},
        Numerics.LITERT: {},
    }
    for found in iter_modules(__path__, f"{__name__}."):
        module = import_module(found.name)
        operators: Mapping[str, OpDef] = getattr(module, "OPERATORS", {})
        if twice := operators.keys() & operators_by_name.keys():
            raise AssertionError(f"{found.name} defines {sorted(twice)}, which are defined already")
        operators_by_name.update(operators)
        for reference, name in _STATEMENTS.items():
            lacked: Mapping[str, Set[str]] = getattr(module, name, {})
            if others := lacked.keys() - operators.keys():
                raise AssertionError(f"{name} of {found.name} names {sorted(others)}, not its own")
            lacked_by_reference[reference].update(lacked)
    return operators_by_name, lacked_by_reference
