"""Dataclasses of the shipped kernels' parameters, made from the structs in their C headers."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import make_dataclass

from hilc.lowering.kernels import FieldGroup, Parameters, shipped_headers, shipped_structs
from hilc.lowering.structs import kernel_names, python_name

_MODULE = "hilc.lowering.parameters"


@functools.cache
def parameter_class(name: str) -> type[FieldGroup]:
    """Return the class ``name`` (``HilGenericMatmulS8``) of a kernel's struct, a subclass of
    :class:`~hilc.lowering.kernels.Parameters`, or of a macro of fields (``HilWindow``).

    AttributeError if no header declares it, as of an attribute that a module lacks.

    Raise AttributeError if no header declares it.
    """
    c_name = _c_names().get(name)
    if c_name is None:
        raise AttributeError(f"no kernel's header declares the struct of {name!r}", name=name)
    structs = shipped_structs()
    is_group = c_name in structs.groups
    namespace: dict[str, object] = {
        "__module__": _MODULE,
        "__doc__": f"The fields of ``{'' if is_group else 'struct '}{c_name}``.",
    }
    if not is_group:
        namespace["KERNEL"] = c_name
    fields = structs.groups[c_name] if is_group else structs.structs[c_name]
    return make_dataclass(
        name,
        [(field.name, field.python) for field in fields],
        bases=(FieldGroup if is_group else Parameters,),
        namespace=namespace,
        init=False,
        repr=False,
        eq=False,
        kw_only=True,
    )


@functools.cache
def _c_names() -> Mapping[str, str]:
    """Return the C names of the structs of kernels and of macros, by those of their classes."""
    names = [*shipped_structs().groups, *kernel_names(shipped_headers().values())]
    return {python_name(name): name for name in names}
