"""Reader of archives that TVM wrote, from ``metadata.json`` and the generated files.

TVM records the calling convention and the tensors' shapes in several files: see
:mod:`hilc.compat.tvm.code` and :mod:`hilc.compat.tvm.tensors`. Every file is untrusted; missing or
contradictory facts are errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from hilc.artifact.foreign import ForeignReader
from hilc.artifact.manifest import CONSTANTS_POOL, Module, Pool, check_module
from hilc.compat.tvm.code import Code
from hilc.compat.tvm.tensors import tensor_infos
from hilc.compat.tvm.text import Border, Relay
from hilc.errors import InputError
from hilc.target import cpu_names

#: Versions of Model Library Format that can be read.
VERSIONS = (5, 6, 7)

_MAX_BYTES = 1 << 31
# A stack allocator rounds each block up; the code may have been planned for a smaller alignment.
_BLOCK_SLACK = 16

_Entry = Mapping[str, Any]


def tvm_entries(metadata: _Entry, label: str) -> dict[str, _Entry]:
    """Return the entry of each module in ``metadata.json``, by name; there are three layouts.

    Raise :class:`~hilc.errors.InputError` for a version of the format that is not supported.
    """
    version = metadata["version"]
    if version not in VERSIONS:
        raise InputError(
            f"{label} has version {version} of Model Library Format; "
            f"versions {VERSIONS[0]} to {VERSIONS[-1]} can be read",
            "export the model again with TVM 0.8 to 0.15",
        )
    entries: dict[str, _Entry]
    if version < 7:
        entries = {_member(metadata, "model_name", str, label): metadata}
    elif metadata.get("style") == "operator":
        entries = {"": metadata}
    else:
        entries = _member(metadata, "modules", dict, label)
    for name, entry in entries.items():
        _require_kind(entry, dict, f"{label}: module {name!r}")
    return entries


def tvm_module(files: Mapping[str, bytes], name: str, entry: _Entry, label: str) -> Module:
    """Return the module ``name`` of an archive without hil's description."""
    label = f"{label}: module {name!r}"
    _check_entry(name, entry, label)
    mains = _mains(entry, label)
    code = Code(files, name, label)
    cpu = _cpu(code, entry)
    fields = code.struct("workspace_pools")
    constants = [f for f in fields if code.macro(f"{f}_CONSTANT_POOL_SIZE") is not None]
    if len(constants) > 1:
        code.refuse(f"has the constant pools {', '.join(constants)}; only one can be handed over")
    pools = _pools(code, [field for field in fields if field not in constants])
    allocations = code.allocations(len(_operators(entry, label)))
    kind: Literal["internal", "external", "calls"] = "calls" if allocations else "internal"
    if pools:
        kind = "external"
    tables = {which: _table(mains, which, label) for which in ("inputs", "outputs")}
    infos = tensor_infos(code, tables, Relay(files, name), pools)
    module = Module(
        name=name,
        symbol=code.symbol,
        cpu=cpu,
        inputs=infos["inputs"],
        outputs=infos["outputs"],
        layers=(),
        workspace_bytes=_workspace_bytes(code, mains, pools, allocations),
        io_bytes=sum(info.nbytes for group in infos.values() for info in group),
        constants_bytes=_sum(mains, "constants_size_bytes", label),
        pools=kind,
        io_in_pool=code.maps_tensors,
        workspace_pools=tuple(pools),
        codegen="llvm" if code.objects else "c",
        api="packed" if code.has_packed_main else "unpacked",
        interface="c" if code.is_c else "packed",
        constants="external" if constants else "internal",
        constants_pool=constants[0] if constants else CONSTANTS_POOL,
        devices=code.struct("devices"),
        functions=code.functions(),
    )
    check_module(module, label)
    return module


def _check_entry(name: str, entry: _Entry, label: str) -> None:
    if entry.get("style") == "operator":
        raise InputError(
            f"{label} is operator-style: single functions without a main, which cannot run as a "
            f"model",
            "export a whole model: tvmc compile --executor aot --output-format mlf",
        )
    executors = _member(entry, "executors", list, label)
    if "aot" not in executors:
        raise InputError(
            f"{label} is for the executors {executors!r:.60}; "
            "only models that were compiled ahead of time run here",
            "export it again with --executor aot",
        )
    if _member(entry, "model_name", str, label) != name:
        raise InputError(
            f"{label} describes the model {entry['model_name']!r}", "export the model again"
        )
    if not re.fullmatch(r"[A-Za-z_]\w{0,99}", name, re.ASCII):
        raise InputError(
            f"{label} has a name that TVM wrote into C identifiers as it is, so its code cannot "
            "compile",
            "export it again with a module name of letters, digits and underscores",
        )


def _mains(entry: _Entry, label: str) -> list[_Entry]:
    """Return the main's memory figures, for each device that it runs on."""
    functions = _member(_member(entry, "memory", dict, label), "functions", dict, label)
    mains = _member(functions, "main", list, label)
    if not mains:
        raise InputError(f"{label} has no memory figures of its main", "export the model again")
    return [_require_kind(main, dict, f"{label}: main") for main in mains]


def _operators(entry: _Entry, label: str) -> list[Any]:
    functions = entry["memory"]["functions"].get("operator_functions", [])
    return list(_require_kind(functions, list, f"{label}: operator_functions"))


def _sum(mains: Sequence[_Entry], key: str, label: str) -> int:
    """Return the sum of the main's ``key`` over all devices."""
    sizes = [_member(main, key, int, label) for main in mains]
    for size in sizes:
        if not 0 <= size < _MAX_BYTES:
            raise InputError(f"{label} has {key} {size}", "export the model again")
    return sum(sizes)


def _table(mains: Sequence[_Entry], kind: str, label: str) -> dict[str, Border]:
    """Return the main's ``inputs`` or ``outputs``; empty if this version of TVM does not write
    them.
    """
    table: dict[str, Border] = {}
    for main in mains:
        for name, value in _require_kind(main.get(kind, {}), dict, f"{label}: {kind}").items():
            at = f"{label}: {kind}: {name!r}"
            dtype = _member(_require_kind(value, dict, at), "dtype", str, at)
            border = Border(name, dtype, _member(value, "size", int, at), None)
            if table.setdefault(name, border) != border:
                raise InputError(f"{at} has two descriptions", "export the model again")
    return table


def _cpu(code: Code, entry: _Entry) -> str:
    """Return the core of the target; the host if it is unnamed or unknown."""
    targets = entry.get("target", [])
    # By device up to version 5.
    texts = list(targets.values()) if isinstance(targets, dict) else targets
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        code.refuse(f"has the target {targets!r:.60}")
    named = [match[1] for text in texts if (match := re.search(r"-mcpu=([\w.+-]+)", text))]
    cpu = next((cpu for cpu in named if cpu in cpu_names()), "host")
    code.check_objects(cpu)
    return cpu


def _pools(code: Code, fields: Sequence[str]) -> list[Pool]:
    """Return the workspace pools that the caller provides."""
    pools = []
    for field in fields:
        size = code.macro(f"{field}_WORKSPACE_POOL_SIZE")
        if size is None:
            code.refuse(f"does not say how large its workspace pool {field!r} is")
        pools.append(Pool(field, size, None))
    return pools


def _workspace_bytes(
    code: Code, mains: Sequence[_Entry], pools: Sequence[Pool], allocations: int
) -> int:
    if pools:
        return sum(pool.nbytes for pool in pools)
    # TVM's figure is the main's blocks plus those of the largest operator.
    planned = _sum(mains, "workspace_size_bytes", code.label)
    return max(planned, code.macro("WORKSPACE_SIZE") or 0) + _BLOCK_SLACK * allocations


def _member(value: _Entry, key: str, kind: type, label: str) -> Any:
    if key not in value:
        raise InputError(f"{label}: metadata.json has no {key!r}", "export the model again")
    return _require_kind(value[key], kind, f"{label}: {key}")


def _require_kind(value: Any, kind: type, label: str) -> Any:
    # True is an int in Python, but not in JSON.
    if type(value) is not kind:
        wanted = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}[kind]
        raise InputError(
            f"{label} is {value!r:.60}; expected is {wanted}", "export the model again"
        )
    return value


class TvmReader(ForeignReader):
    """Reader of archives (Model Library Format) that TVM wrote."""

    def entries(self, metadata: _Entry, label: str) -> Mapping[str, _Entry]:
        """Return the entry of each module in ``metadata.json``, by name."""
        return tvm_entries(metadata, label)

    def module(self, files: Mapping[str, bytes], name: str, entry: _Entry, label: str) -> Module:
        """Return the module ``name``, which ``entry`` describes."""
        return tvm_module(files, name, entry, label)

    def path_beside_others(self, path: str, module: str) -> str:
        """Return a file's path in an archive of several modules."""
        # Until version 6 an archive had one module.
        return f"src/{module}.relay" if path == "src/relay.txt" else path
