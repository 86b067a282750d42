"""Archives that TVM wrote: what a module is, from ``metadata.json`` and the generated files.

TVM says neither how its code is to be called nor what shape its tensors have, in any one place. The
header has the C interface's structs, sizes of pools and map functions; the C metadata has the
packed interface's tensors in their order; ``metadata.json`` has sizes and types; the model's Relay
text has shapes. The C text is only searched for what TVM's generators write, every file is
untrusted, and what is missing or contradicts is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NoReturn

import numpy as np

from hilc.cpu import cpu_names
from hilc.errors import InputError
from hilc.ir import DTYPES
from hilc.module import IDENTIFIER, Module, Pool, TensorInfo, check_module
from hilc.tvm_text import (
    MAX_HEADER,
    Border,
    Relay,
    c_metadata,
    elf_machine,
    registry_names,
    sanitise,
    without_comments,
)

#: Versions of Model Library Format that can be read.
VERSIONS = (5, 6, 7)

# A stack allocator rounds each block up; the code may have been planned for less alignment.
_BLOCK_SLACK = 16


def tvm_entries(metadata: Mapping[str, Any], where: str) -> dict[str, Mapping[str, Any]]:
    """What ``metadata.json`` says of each module, by name; it has had three layouts."""
    version = metadata["version"]
    if version not in VERSIONS:
        raise InputError(
            f"{where} has version {version} of Model Library Format; "
            f"versions {VERSIONS[0]} to {VERSIONS[-1]} can be read",
            "export the model again with TVM 0.8 to 0.15",
        )
    if version < 7:
        entries = {_member(metadata, "model_name", str, where): metadata}
    elif metadata.get("style") == "operator":
        entries = {"": metadata}
    else:
        entries = _member(metadata, "modules", dict, where)
    for name, entry in entries.items():
        _require_kind(entry, dict, f"{where}: module {name!r}")
    return entries


def tvm_module(
    files: Mapping[str, bytes], name: str, entry: Mapping[str, Any], where: str
) -> Module:
    """The module ``name`` of an archive that does not describe it in our own way."""
    return _Archive(files, name, entry, f"{where}: module {name!r}").module()


class _Archive:
    """One module of an archive."""

    def __init__(
        self, files: Mapping[str, bytes], name: str, entry: Mapping[str, Any], where: str
    ) -> None:
        self._where = where
        self._name = name
        self._entry = entry
        self._check_entry()
        self._files = files
        folder = "codegen/host"
        pattern = re.compile(rf"{folder}/(?:src|lib)/{re.escape(name)}_lib\d{{1,4}}\.(\w+)")
        libraries = {path: m[1] for path in files if (m := pattern.fullmatch(path))}
        for path, kind in sorted(libraries.items()):
            if kind not in ("c", "o"):
                self._refuse(f"has {path}; only C sources and objects can be built")
        self._sources = {
            path: files[path].decode("utf-8", "replace")
            for path, kind in sorted(libraries.items())
            if kind == "c"
        }
        self._objects = {
            path: files[path] for path, kind in sorted(libraries.items()) if kind == "o"
        }
        if not libraries:
            self._refuse(f"has neither {folder}/src/{name}_lib0.c nor {folder}/lib/{name}_lib0.o")
        lower = f"tvmgen_{name.lower()}"
        header = files.get(f"{folder}/include/{lower}.h", b"")[:MAX_HEADER]
        self._header = without_comments(header.decode("utf-8", "replace"))
        run = re.search(rf"\b{lower}_run\s*\(\s*(\w*)", self._header)
        self._is_c = run is not None and run[1] != "TVMValue"
        self._symbol = lower if self._is_c else f"tvmgen_{name}"
        self._macros = {
            macro: int(value)
            for macro, value in re.findall(
                r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\d{1,15})[ \t]*$", self._header, re.M
            )
        }
        self._mains = self._read_mains()
        self._relay = Relay(files, name)
        if not any(self._defines(f"{self._symbol}_run")):
            self._refuse(f"does not define the entry point {self._symbol}_run")

    def module(self) -> Module:
        """What the archive says of this module, checked."""
        pools, kind = self._pools()
        constants, constants_pool = self._constants_pool()
        inputs, outputs = self._c_borders() if self._is_c else self._packed_borders()
        mapped = bool(re.search(rf"\b{self._symbol}_map_inputs\s*\(", self._header))
        infos = {
            "inputs": self._infos(inputs, "inputs", mapped, pools),
            "outputs": self._infos(outputs, "outputs", mapped, pools),
        }
        is_packed = not self._is_c and self._has_packed_main()
        module = Module(
            name=self._name,
            symbol=self._symbol,
            cpu=self._cpu(),
            **infos,
            layers=(),
            workspace_bytes=self._workspace_bytes(pools, kind),
            io_bytes=sum(info.nbytes for group in infos.values() for info in group),
            constants_bytes=self._sum("constants_size_bytes"),
            pools=kind,
            io_in_pool=mapped,
            workspace_pools=pools,
            codegen="llvm" if self._objects else "c",
            api="packed" if is_packed else "unpacked",
            interface="c" if self._is_c else "packed",
            constants=constants,
            constants_pool=constants_pool,
            devices=self._struct("devices"),
            functions=self._functions(is_packed),
        )
        check_module(module, self._where)
        return module

    # metadata.json ----------------------------------------------------------------------------

    def _check_entry(self) -> None:
        entry, name = self._entry, self._name
        if entry.get("style") == "operator":
            self._refuse(
                "is operator-style: single functions without a main, which is no model to run",
                "export a whole model: tvmc compile --executor aot --output-format mlf",
            )
        executors = _member(entry, "executors", list, self._where)
        if "aot" not in executors:
            self._refuse(
                f"is for the executors {executors!r}; only ahead-of-time compiled models run here",
                "export it again with --executor aot",
            )
        if _member(entry, "model_name", str, self._where) != name:
            self._refuse(f"describes the model {entry['model_name']!r}")
        if not re.fullmatch(r"[A-Za-z_]\w{0,99}", name, re.ASCII):
            self._refuse(
                "has a name that TVM wrote into C identifiers as it is, so its code cannot compile",
                "export it again with a module name of letters, digits and underscores",
            )

    def _read_mains(self) -> list[Mapping[str, Any]]:
        """The main's memory, for each device that it runs on."""
        memory = _member(self._entry, "memory", dict, self._where)
        functions = _member(memory, "functions", dict, self._where)
        mains = _member(functions, "main", list, self._where)
        if not mains:
            self._refuse("has no memory figures of its main")
        return [_require_kind(main, dict, f"{self._where}: main") for main in mains]

    def _sum(self, key: str) -> int:
        """The main's ``key`` over all devices."""
        total = 0
        for main in self._mains:
            value = _member(main, key, int, self._where)
            if not 0 <= value < 1 << 31:
                self._refuse(f"has {key} {value}")
            total += value
        return total

    def _table(self, kind: str) -> dict[str, Border]:
        """The main's ``inputs`` or ``outputs``; empty where TVM did not write them yet."""
        table: dict[str, Border] = {}
        for main in self._mains:
            for name, value in _require_kind(main.get(kind, {}), dict, self._where).items():
                at = f"{self._where}: {kind}: {name!r}"
                dtype = _member(_require_kind(value, dict, at), "dtype", str, at)
                border = Border(name, dtype, _member(value, "size", int, at), None)
                if table.setdefault(name, border) != border:
                    self._refuse(f"says two things of {name!r}")
        return table

    def _cpu(self) -> str:
        targets = self._entry.get("target", [])
        # Up to version 5 by device.
        texts = targets.values() if isinstance(targets, dict) else targets
        if not isinstance(targets, (dict, list)) or not all(isinstance(t, str) for t in texts):
            self._refuse(f"has the target {targets!r:.60}")
        named = (m[1] for text in texts if (m := re.search(r"-mcpu=([\w.+-]+)", text)))
        cpu = next((cpu for cpu in named if cpu in cpu_names()), "host")
        for path, data in self._objects.items():
            machine = elf_machine(data)
            if machine is None:
                self._refuse(f"has {path}, which is no ELF object")
            if (machine == "arm") != (cpu != "host"):
                self._refuse(f"has {path} for {machine}, which does not fit its target {cpu!r}")
        return cpu

    # Memory -----------------------------------------------------------------------------------

    def _constant_fields(self) -> list[str]:
        return [
            field
            for field in self._struct("workspace_pools")
            if self._macro(f"{field}_CONSTANT_POOL_SIZE") is not None
        ]

    def _constants_pool(self) -> tuple[Literal["internal", "external"], str]:
        fields = self._constant_fields()
        if len(fields) > 1:
            self._refuse(f"has the constant pools {', '.join(fields)}; only one can be handed over")
        return ("external", fields[0]) if fields else ("internal", "global_const_workspace")

    def _pools(self) -> tuple[tuple[Pool, ...], Literal["internal", "external", "calls"]]:
        fields = self._struct("workspace_pools")
        constants = self._constant_fields()
        names = [field for field in fields if field not in constants]
        pools = []
        for field in names:
            size = self._macro(f"{field}_WORKSPACE_POOL_SIZE")
            if size is None:
                self._refuse(f"does not say how large its workspace pool {field!r} is")
            pools.append(Pool(field, size, None))
        if fields:
            return tuple(pools), "external"
        if self._allocations():
            return (), "calls"
        return (), "internal"

    def _allocations(self) -> int:
        """How many places in the code allocate memory while it runs."""
        symbol = b"TVMBackendAllocWorkspace"
        calls = sum(self._files[path].count(symbol + b"(") for path in self._sources)
        if any(symbol in data for data in self._objects.values()):
            functions = _require_kind(
                self._entry["memory"]["functions"].get("operator_functions", []),
                list,
                self._where,
            )
            # An object does not say how often: a few blocks in each function.
            calls += 4 * (len(functions) + 1)
        return calls

    def _workspace_bytes(self, pools: Sequence[Pool], kind: str) -> int:
        if kind == "external":
            return sum(pool.nbytes for pool in pools)
        # TVM's figure holds the main's blocks and the largest operator's on top.
        planned = max(self._sum("workspace_size_bytes"), self._macro("WORKSPACE_SIZE") or 0)
        return planned + (_BLOCK_SLACK * self._allocations() if kind == "calls" else 0)

    # The interface ----------------------------------------------------------------------------

    def _macro(self, what: str) -> int | None:
        return self._macros.get(f"{self._symbol}_{what}".upper())

    def _struct(self, what: str) -> tuple[str, ...]:
        """The fields of ``struct <symbol>_<what>``; none where the header has no such struct."""
        start = re.search(rf"\bstruct\s+{self._symbol}_{what}\s*\{{", self._header)
        if start is None:
            return ()
        end = self._header.find("}", start.end())
        fields = []
        for member in self._header[start.end() : end].split(";")[:-1]:
            match = re.fullmatch(r"\s*void\s*\*\s*(\w+)\s*", member, re.ASCII)
            if match is None or not IDENTIFIER.fullmatch(match[1]):
                self._refuse(f"has the member {member.strip()[:40]!r} in its struct {what}")
            fields.append(match[1])
        return tuple(fields)

    def _has_packed_main(self) -> bool:
        """Whether main and operators take packed arguments; objects do not say."""
        main = re.compile(rf"\b{self._symbol}___tvm_main__\s*\(\s*(TVMValue|void)\s*\*\s*args\s*,")
        return any(main.search(text) for text in self._sources.values())

    def _functions(self, is_packed: bool) -> tuple[str, ...]:
        """The registry's functions that really take packed arguments."""
        if self._is_c:
            return ()
        names = [name for text in self._sources.values() for name in registry_names(text)]
        own = [f"{self._symbol}_run", f"{self._symbol}_get_c_metadata"]
        names = list(dict.fromkeys(names if is_packed else [n for n in names if n in own]))
        for name in names:
            if not IDENTIFIER.fullmatch(name):
                self._refuse(f"registers the function {name[:40]!r}, which is not a C name")
        missing = own if any(self._defines(own[1])) else own[:1]
        return tuple(names) + tuple(name for name in missing if name not in names)

    def _defines(self, function: str) -> Iterable[bool]:
        for text in self._sources.values():
            yield re.search(rf"\b{function}\s*\([^;{{}}]{{0,400}}\{{", text) is not None
        for data in self._objects.values():
            yield f"{function}\0".encode() in data

    def _c_borders(self) -> tuple[list[Border], list[Border]]:
        return (
            self._of_fields("inputs", self._relay.inputs),
            self._of_fields("outputs", self._relay.outputs),
        )

    def _of_fields(self, kind: str, relay: Sequence[Border]) -> list[Border]:
        """The struct's fields, with what table, macros and Relay text say of them."""
        table = self._table(kind)
        fields = [field for field in self._struct(kind) if field != "none"]
        by_name = {sanitise(border.name): border for border in relay}
        borders = []
        for index, field in enumerate(fields):
            known = [border for name, border in table.items() if sanitise(name) == field]
            if kind == "inputs":
                shaped = by_name.get(field)
            else:
                shaped = relay[index] if len(relay) == len(fields) else None
            if len(known) > 1:
                self._refuse(f"has several {kind} that are {field!r} in C")
            if not known and shaped is None:
                self._refuse(
                    f"does not say what type and size its {kind[:-1]} {field!r} has",
                    "export it again with TVM 0.9 or later, or keep its src/*.relay",
                )
            border = known[0] if known else shaped
            assert border is not None
            size = self._macro(f"{field}_SIZE")
            if size not in (None, border.nbytes):
                self._refuse(f"says that {field!r} has {border.nbytes} bytes, and also {size}")
            name = border.name if known or kind == "inputs" else field
            borders.append(Border(name, border.dtype, border.nbytes, _agreed(border, shaped)))
        if table and len(table) != len(fields):
            self._refuse(f"has {len(fields)} {kind} in its header but {len(table)} in its metadata")
        return borders

    def _packed_borders(self) -> tuple[list[Border], list[Border]]:
        """Inputs and outputs in the order of the arguments."""
        text = next((t for t in self._sources.values() if "kTvmgenMetadata_inputs" in t), None)
        result = []
        for kind, relay in (("inputs", self._relay.inputs), ("outputs", self._relay.outputs)):
            table = self._table(kind)
            if text is not None:
                result.append(self._described(c_metadata(text, kind), table, kind))
            else:
                result.append(self._ordered(table, relay, kind))
        self._check_arguments(len(result[0]) + len(result[1]))
        return result[0], result[1]

    def _described(
        self, described: Sequence[Border] | None, table: Mapping[str, Border], kind: str
    ) -> list[Border]:
        """The C metadata's tensors, under their original names."""
        if described is None:
            self._refuse(f"has C metadata whose {kind} cannot be read")
        if not table:
            return list(described)
        if len(table) != len(described):
            self._refuse(
                f"has {len(described)} {kind} in its code but {len(table)} in its metadata"
            )
        borders = []
        for border in described:
            # TVM numbers the outputs in the code; a single one needs no name to be recognised.
            known = [b for n, b in table.items() if n == border.name or sanitise(n) == border.name]
            found = known[0] if known else next(iter(table.values()))
            if known or len(table) == 1:
                if (found.dtype, found.nbytes) != (border.dtype, border.nbytes):
                    self._refuse(
                        f"says that {found.name!r} is {found.dtype} of {found.nbytes} bytes, "
                        f"and also {border.dtype} of {border.nbytes}"
                    )
                border = Border(found.name, border.dtype, border.nbytes, border.shape)
            borders.append(border)
        return borders

    def _ordered(
        self, table: Mapping[str, Border], relay: Sequence[Border], kind: str
    ) -> list[Border]:
        """The metadata's tensors in an order that something vouches for: JSON's is alphabetical."""
        if kind == "inputs":
            names = [border.name for border in relay if border.name in table]
            shapes = [border for border in relay if border.name in table]
        else:
            numbered = len(table) > 1 and all(f"output{i}" in table for i in range(len(table)))
            names = [f"output{i}" for i in range(len(table))] if numbered else list(table)
            shapes = list(relay) if len(relay) == len(table) else []
            if len(table) > 1 and not numbered:
                names = []
        if len(names) != len(table):
            if len(table) != 1:
                self._refuse(
                    f"does not say in which order its {len(table)} {kind} are passed",
                    "export it with the C interface, or as C sources",
                )
            names = list(table)
        if not names:
            self._refuse(
                f"does not say what {kind} it has", "export it again with TVM 0.9 or later"
            )
        shaped = dict(zip(names, shapes, strict=True)) if len(shapes) == len(names) else {}
        return [
            Border(n, table[n].dtype, table[n].nbytes, _agreed(table[n], shaped.get(n)))
            for n in names
        ]

    def _check_arguments(self, count: int) -> None:
        """The entry passes ``count`` tensors on and leaves none of the main's unset."""
        for text in self._sources.values():
            start = re.search(rf"\b{self._symbol}_run\s*\([^;{{}}]{{0,400}}\{{", text)
            if start is None:
                continue
            # Initialisers end with a semicolon behind their brace.
            end = re.compile(r"\n\}(?!;)").search(text, start.end())
            body = text[start.end() : end.start() if end else len(text)]
            taken = {
                int(i) for i in re.findall(r"\(TVMValue\s*\*\)\s*args\)\s*\[(\d{1,4})\]", body)
            }
            if taken and taken != set(range(count)):
                self._refuse(
                    f"passes the arguments {sorted(taken)} on; its metadata has {count} tensors"
                )
            tensors = re.search(r"\bTVMValue\s+tensors\[(\d{1,4})\]", body)
            set_count = len(re.findall(r"\btensors\[\d{1,4}\]\s*=", body))
            if tensors is not None and int(tensors[1]) != set_count:
                self._refuse(
                    "leaves out its external pools where it calls its main: TVM's packed "
                    "interface cannot be handed any",
                    "export it with the C interface, or with internal pools",
                )

    def _infos(
        self, borders: Sequence[Border], kind: str, mapped: bool, pools: Sequence[Pool]
    ) -> tuple[TensorInfo, ...]:
        places = self._map_function(kind) if mapped else {}
        names = [pool.name for pool in pools]
        infos = []
        for border in borders:
            what = f"{kind[:-1]} {border.name!r}"
            if border.dtype not in DTYPES:
                self._refuse(
                    f"has the {what} of type {border.dtype}",
                    f"supported are {', '.join(sorted(DTYPES))}",
                )
            itemsize = np.dtype(border.dtype).itemsize
            if border.nbytes <= 0 or border.nbytes % itemsize:
                self._refuse(f"has the {what} of {border.nbytes} bytes, which is no {border.dtype}")
            field = sanitise(border.name)
            offset, pool = None, 0
            if mapped:
                if field not in places or places[field][0] not in names:
                    self._refuse(f"does not say where in its pools its {what} lies")
                pool, offset = names.index(places[field][0]), places[field][1]
            infos.append(
                TensorInfo(
                    name=border.name,
                    c_name=field,
                    shape=border.shape
                    if border.shape is not None
                    else (border.nbytes // itemsize,),
                    dtype=border.dtype,
                    scale=None,
                    zero_point=None,
                    nbytes=border.nbytes,
                    offset=offset,
                    pool=pool,
                )
            )
        return tuple(infos)

    def _map_function(self, kind: str) -> dict[str, tuple[str, int]]:
        """Pool and offset of each field, from the body of ``<symbol>_map_<kind>``."""
        for text in self._sources.values():
            start = re.search(rf"\b{self._symbol}_map_{kind}\s*\([^;{{}}]{{0,400}}\{{", text)
            if start is not None:
                body = text[start.end() : text.find("return", start.end())]
                return {
                    field: (pool, int(offset))
                    for field, pool, offset in re.findall(
                        r"\.(\w+)\s*=\s*&\s*\(\s*\(\s*uint8_t\s*\*\s*\)\s*"
                        r"workspace_pools\s*->\s*(\w+)\s*\)\s*\[(\d{1,15})\]",
                        body,
                    )
                }
        return {}

    def _refuse(self, fact: str, hint: str = "export the model again") -> NoReturn:
        raise InputError(f"{self._where} {fact}", hint)


def _agreed(border: Border, shaped: Border | None) -> tuple[int, ...] | None:
    """The shape from another source, where that agrees about type and size."""
    if border.shape is not None:
        return border.shape
    if shaped and (shaped.dtype, shaped.nbytes) == (border.dtype, border.nbytes):
        return shaped.shape
    return None


# JSON -----------------------------------------------------------------------------------------


def _member(value: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    if key not in value:
        raise InputError(f"{where}: metadata.json lacks {key!r}", "export the model again")
    return _require_kind(value[key], kind, f"{where}: {key}")


def _require_kind(value: Any, kind: type, where: str) -> Any:
    # True is an int to Python, not to JSON.
    if type(value) is not kind:
        wanted = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}[kind]
        raise InputError(
            f"{where} is {value!r:.60}; expected is {wanted}", "export the model again"
        )
    return value
