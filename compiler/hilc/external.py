"""Bring your own code generator: subgraphs that other code computes.

A generator is an object with the attributes of :class:`ExternalCodegen`. It claims parts of a graph
and returns C or an object for each; the compiler plans their memory with everything else, calls
them, links their constants and ships their files in the library::

    class Clamp:
        name = "clamp"

        def claim(self, graph):
            return [[i] for i, node in enumerate(graph.nodes) if node.op == "RELU"]

        def generate(self, subgraph, symbol, cpu, api):
            ...
            return ExternalModule(symbol, source=text)

    hilc.compile("kws.tflite", externals=[Clamp()])

Generators run in the order in which they are given, and each sees what those before it left: what
one claimed is a node ``EXTERNAL`` to the next. The subgraph that :meth:`ExternalCodegen.generate`
gets is a whole :class:`~hilc.ir.Graph`: :mod:`hilc.interpreter` runs it, which is what the
generated code must compute, bit for bit. ``examples/byoc`` has complete generators.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Protocol, cast

from hilc.errors import HilError, InputError
from hilc.ir import DTYPES, Array, Graph, Node, Tensor
from hilc.support.inputs import check_regular
from hilc.target import Cpu
from hilc.target.objects import read_object

#: The operator of a node that a generator computes; ``hilc.ops.external.ExternalAttributes`` are
#: its attributes.
EXTERNAL = "EXTERNAL"

#: Kinds of modules that can be linked into a firmware: C source, a relocatable object.
EXPORTABLE = ("c", "o")

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATH = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]*(/[A-Za-z0-9_+-][A-Za-z0-9_.+-]*)*")
_OBJECT_NAME = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]*\.o")
#: Folders of the library's own headers.
_OWN_HEADERS = ("hil/", "tvm/", "dlpack/", "tvmgen_")


def _require_identifier(name: str, what: str) -> None:
    if not _IDENTIFIER.fullmatch(name):
        raise InputError(
            f"{what} {name!r} is not a C identifier", "use letters, digits and underscores"
        )


@dataclass(frozen=True)
class Device:
    """Device that an external function runs on.

    ``name`` is the field of ``struct tvmgen_<model>_devices`` in which the caller passes the
    device's context. Several identical devices have one name and an ``index`` each (field
    ``<name>_<index>``); ``program`` names the program that must be loaded on it. The library's
    description (:attr:`hilc.artifact.library.Module.externals`) has both for each function.
    """

    name: str
    index: int | None = None
    program: str = ""
    #: Whether to call ``TVMDevice<Name>Activate``, ``Open``, ``Close`` and ``Deactivate`` around
    #: the calls.
    use_device_api: bool = False

    def __post_init__(self) -> None:
        _require_identifier(self.name, "the device name")
        if self.index is not None and self.index < 0:
            raise InputError(f"the device {self.name!r} has the negative index {self.index}")

    @property
    def field(self) -> str:
        """Field of the devices' struct: the name, and the index if there is one."""
        return self.name if self.index is None else f"{self.name}_{self.index}"

    def hook(self, event: str) -> str:
        """Return the C function to call for ``event``, one of ``Activate``, ``Open``, ..."""
        return f"TVMDevice{''.join(map(_capital, self.name.split('_')))}{event}"


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]


class RoundRobin:
    """Round-robin assignment of work to ``count`` identical devices.

    A program that was assigned before stays on its device, which has it loaded; work without a
    program is distributed too.
    """

    def __init__(self, name: str, count: int, *, use_device_api: bool = False) -> None:
        if count < 1:
            raise InputError(f"there are {count} devices {name!r}", "at least one is needed")
        self._name = name
        self._count = count
        self._use_device_api = use_device_api
        self._next = 0
        self._loaded: dict[str, int] = {}

    def assign(self, program: str = "") -> Device:
        """Return the device for the next piece of work, which needs ``program``."""
        index = self._loaded.get(program) if program else None
        if index is None:
            index = self._next
            self._next = (self._next + 1) % self._count
            if program:
                self._loaded[program] = index
        return Device(self._name, index, program, self._use_device_api)


@dataclass(frozen=True, eq=False)
class ExternalModule:
    """Result of a generator for one subgraph, checked on construction.

    The function ``symbol`` takes the subgraph's inputs, its outputs, its scratch where
    ``scratch_bytes`` is not 0, and the device's context where it has one: as plain pointers
    (``int32_t symbol(void *in0, ..., void *out0, ..., void *scratch, void *device)``) or, in a
    model with packed operators, as a ``TVMBackendPackedCFunc`` of DLTensor handles (scratch is one
    of ``uint8``) and an opaque handle. It returns 0 on success; anything else ends the inference.

    Tensors are contiguous, the last dimension innermost. Those of the model's border may be the
    caller's and are aligned as their elements are; the others, and scratch, start at multiples of
    16 bytes. No output overlaps an input, and scratch keeps nothing from one call to the next.
    """

    symbol: str
    #: C text; the compiler writes it to a file of its own, after the constants' declarations.
    source: str | None = field(default=None, repr=False)
    #: Relocatable object (ELF) for the core, instead of ``source``.
    object: bytes | None = field(default=None, repr=False)
    #: Headers that the source includes, by path.
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Arrays by C symbol: linked as ``const`` data, which the source sees declared and an object
    #: may refer to. Aligned to 16 bytes.
    constants: Mapping[str, Array] = field(default_factory=dict, repr=False)
    #: Further global names that the source defines, so that the compiler reports duplicates by
    #: name. (Those of an object are read from it.)
    functions: tuple[str, ...] = ()
    scratch_bytes: int = 0
    device: Device | None = None
    #: Kind of the module for messages; only "c" (source) and "o" (object) can be exported.
    type_key: str = "c"
    #: Objects by file name that modules share, such as a library that all of them call: those of
    #: one name must be equal, also between models of one image, and are linked once.
    shared_objects: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    #: Further C texts, each a file of its own, whose global functions are among ``functions``.
    parts: tuple[str, ...] = field(default=(), repr=False)
    #: Flash in bytes of the constants that these define.
    part_bytes: int = 0
    #: Estimates for the search and its limits, 0 where unknown: flash in bytes of the code, and the
    #: instructions of a call. A loop counts one turn, a choice its longest branch.
    code_bytes: int = 0
    instructions: int = 0

    def __post_init__(self) -> None:
        for name in ("headers", "constants", "shared_objects"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        if not self.exportable:
            # The compiler refuses it, together with all others of its kind.
            return
        _require_identifier(self.symbol, "the symbol")
        label = f"the external module {self.symbol!r}"
        if (self.source is None) == (self.object is None):
            has = "both source and object" if self.source is not None else "no source and no object"
            raise InputError(f"{label} has {has}", "set one of the two")
        if self.scratch_bytes < 0:
            raise InputError(f"{label} has an invalid scratch size of {self.scratch_bytes} bytes")
        for estimate in ("code_bytes", "instructions"):
            if (value := getattr(self, estimate)) < 0:
                raise InputError(
                    f"{label} has {estimate}={value}", "give an estimate, or 0 where it is unknown"
                )
        for name in self.functions:
            _require_identifier(name, f"{label}: the function")
        for name, array in self.constants.items():
            _require_identifier(name, f"{label}: the constant")
            if array.dtype.name not in DTYPES or array.size == 0:
                raise InputError(
                    f"{label}: the constant {name!r} is {array.dtype}{list(array.shape)}",
                    f"use an array that is not empty, of {', '.join(DTYPES)}",
                )
        for path in self.headers:
            if not _PATH.fullmatch(path) or path.startswith(_OWN_HEADERS):
                raise InputError(
                    f"{label}: the header has the invalid path {path!r}",
                    "use a relative path of letters, digits and _ . + - that does not begin with "
                    f"{', '.join(_OWN_HEADERS)}",
                )
        for name in self.shared_objects:
            if not _OBJECT_NAME.fullmatch(name):
                raise InputError(
                    f"{label}: the shared object has the invalid name {name!r}",
                    "use letters, digits and _ . + - with .o at the end, without a folder",
                )

    @property
    def exportable(self) -> bool:
        """Whether its kind can be linked into a firmware."""
        return self.type_key in EXPORTABLE

    @property
    def flash_bytes(self) -> int:
        """Flash of its constants and code by estimate; that of objects is unknown."""
        constants = sum(array.nbytes for array in self.constants.values())
        return constants + self.part_bytes + self.code_bytes

    @property
    def global_names(self) -> Mapping[str, str]:
        """Global C names that it defines, with a description of each; shared objects excluded."""
        names = dict.fromkeys(read_object(self.object, "").defined, "name") if self.object else {}
        names |= dict.fromkeys((self.symbol, *self.functions), "function")
        return names | dict.fromkeys(self.constants, "constant")


@dataclass(frozen=True)
class ExternalCall:
    """External function that a step calls instead of a kernel; the counterpart of
    ``KernelCall``.
    """

    module: ExternalModule
    #: Positions of the node's inputs that are passed as tensors, in the function's order.
    inputs: tuple[int, ...]
    macs: int = 0

    @property
    def variant(self) -> str:
        """The name of the only variant of a layer that an external function computes."""
        return "external"

    @property
    def scratch_bytes(self) -> int:
        """Scratch memory of a call, in bytes."""
        return self.module.scratch_bytes

    def access(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Return None: the access order is unknown, so its outputs overlap no input."""


class ExternalCodegen(Protocol):
    """A user's code generator."""

    @property
    def name(self) -> str:
        """C identifier; part of the functions' names."""
        ...

    def claim(self, graph: Graph) -> Sequence[Sequence[int]]:
        """Return groups of node positions in ``graph.nodes`` that this generator takes.

        A group becomes one function. Its nodes must be connected by tensors that they write or
        read, and must not form a cycle with a node outside. :func:`single_nodes` and
        :func:`connected_groups` return such groups. No node may be in two groups; nodes
        ``EXTERNAL`` belong to other generators.
        """
        ...

    def generate(self, subgraph: Graph, symbol: str, cpu: Cpu, api: str) -> ExternalModule:
        """Return the code of a claimed group; ``symbol`` is the required name of its function.

        ``api`` is "unpacked" or "packed": how the function is called (:class:`ExternalModule`).
        Called once per group, in the order of execution.
        """
        ...


Wanted = Callable[[Graph, Node], bool]


def single_nodes(graph: Graph, wanted: Wanted) -> list[list[int]]:
    """Return one group for each node that ``wanted`` accepts."""
    return [
        [position]
        for position, node in enumerate(graph.nodes)
        if node.op != EXTERNAL and wanted(graph, node)
    ]


def connected_groups(graph: Graph, wanted: Wanted) -> list[list[int]]:
    """Return the nodes that ``wanted`` accepts, in groups that can run as one.

    A node joins the groups that compute its inputs, except where a node outside would have to run
    between the two. Each group is connected, and the groups have no cyclic dependencies.
    """
    units = _Units(graph)
    taken = {position for (position,) in single_nodes(graph, wanted)}
    for position in sorted(taken):
        unit = position
        # The latest first: it may be between this node and an earlier one.
        for other in sorted(units.producers(graph.nodes[position]), reverse=True):
            if other in taken and units.may_join(other, unit):
                unit = units.join(other, unit)
    groups: dict[int, list[int]] = {}
    for position in sorted(taken):
        groups.setdefault(units.of[position], []).append(position)
    return list(groups.values())


class _Units:
    """Groups of nodes that run as one, initially single nodes, identified by their first node."""

    def __init__(self, graph: Graph) -> None:
        self._writer = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs}
        #: Unit of each node.
        self.of = list(range(len(graph.nodes)))
        #: Units that a unit depends on, directly or not.
        self._needs: dict[int, set[int]] = {}
        for position, node in enumerate(graph.nodes):
            producers = self.producers(node)
            self._needs[position] = producers.union(*(self._needs[p] for p in producers))

    def producers(self, node: Node) -> set[int]:
        """Return the units that compute the node's inputs."""
        return {self.of[self._writer[name]] for name in node.inputs if name in self._writer}

    def may_join(self, first: int, second: int) -> bool:
        """Return whether joining two units creates no cycle through a third."""
        return not any(first in self._needs[unit] for unit in self._needs[second] - {first})

    def join(self, first: int, second: int) -> int:
        """Join two units; return the identifier of the result."""
        kept, gone = min(first, second), max(first, second)
        both = {first, second}
        self._needs[kept] = (self._needs[first] | self._needs[second]) - both
        del self._needs[gone]
        for needs in self._needs.values():
            if needs & both:
                # Units that depended on one of the two now depend on the dependencies of both.
                needs -= both
                needs |= {kept} | self._needs[kept]
        self.of = [kept if unit == gone else unit for unit in self.of]
        return kept


# From the command line ---------------------------------------------------------------------------

_SPEC = re.compile(r"(?P<path>.+?\.py)(:(?P<factory>\w+))?(?P<options>(,\w+=[^,]*)*)")


def load_generator(spec: str, **options: str) -> ExternalCodegen:
    """Return the generator that ``spec`` specifies: ``FILE.py[:FACTORY][,KEY=VALUE]...``.

    ``FACTORY`` is a class or function in the file, which is called with the options, all strings;
    without it the file defines exactly one class that has ``claim`` and ``generate``.

    Raise :class:`~hilc.errors.InputError` for an invalid specification, or a generator without the
    required attributes.
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise InputError(
            f"{spec!r} does not specify a code generator", "use FILE.py[:FACTORY][,KEY=VALUE]..."
        )
    for option in filter(None, match["options"].split(",")):
        key, _, value = option.partition("=")
        if key in options:
            raise InputError(f"{spec!r} has {key} twice", "give each option once")
        options[key] = value
    path = Path(match["path"])
    module = _load_file(path)
    factory = _factory(module, match["factory"], path)
    label = f"{path}:{factory.__name__}"
    signature = inspect.signature(factory)
    try:
        signature.bind(**options)
    except TypeError as error:
        known = ", ".join(signature.parameters) or "none"
        raise InputError(f"{label}: {error}", f"its options are: {known}") from None
    with blaming(f"{label} failed"):
        generator = factory(**options)
    for name in ("name", "claim", "generate"):
        if not hasattr(generator, name):
            raise InputError(
                f"{label} returned a {type(generator).__name__}, which has no {name!r}",
                "return an object with the attributes of hilc.external.ExternalCodegen",
            )
    return cast(ExternalCodegen, generator)


def _load_file(path: Path) -> ModuleType:
    remedy = "give the file of a code generator"
    check_regular(path, remedy)
    if not path.is_file():
        raise InputError(f"the file {path} does not exist", remedy)
    # A module name by which its classes can be found, and that is unique per file.
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    name = f"hilc_external_{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with blaming(f"{path} failed"):
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


def _factory(module: ModuleType, name: str | None, path: Path) -> Callable[..., Any]:
    own = {
        key: value
        for key, value in vars(module).items()
        if inspect.isclass(value)
        and value.__module__ == module.__name__
        and all(hasattr(value, method) for method in ("claim", "generate"))
    }
    if name is not None:
        factory = getattr(module, name, None)
        if not callable(factory):
            raise InputError(
                f"{path} has no class or function {name!r}",
                f"its generators are: {', '.join(own) or 'none'}",
            )
        return cast(Callable[..., Any], factory)
    if len(own) != 1:
        raise InputError(
            f"{path} defines {len(own)} generators",
            f"select one after a colon: {', '.join(own)}"
            if own
            else "define a class with the attributes of hilc.external.ExternalCodegen",
        )
    (only,) = own.values()
    return only


@contextmanager
def blaming(what: str) -> Iterator[None]:
    """Turn an exception in a user's generator into an error with its location.

    Raise :class:`~hilc.errors.InputError` for an exception that is not a HilError.
    """
    try:
        yield
    except HilError as error:
        raise type(error)(f"{what}: {error.fact}", error.hint) from error
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise InputError(
            f"{what}: {type(error).__name__}: {error}",
            f"see line {frame.lineno} of {frame.filename}",
        ) from error
