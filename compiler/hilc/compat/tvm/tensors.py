"""Inputs and outputs of a module in an archive of TVM's: names, types, shapes, order and offsets.

``metadata.json`` has names, types and sizes, in alphabetical order (up to version 5 nothing); the
header of the C interface has the fields; the C metadata of the packed interface have everything but
the inputs' original names; the Relay text has the inputs in order, and all shapes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from hilc.artifact.manifest import IDENTIFIER, Pool, TensorInfo
from hilc.compat.tvm.code import Code
from hilc.compat.tvm.text import Border, Relay, c_metadata, sanitise
from hilc.ir import DTYPES

Tables = Mapping[str, Mapping[str, Border]]


def tensor_infos(
    code: Code, tables: Tables, relay: Relay, pools: Sequence[Pool]
) -> dict[str, tuple[TensorInfo, ...]]:
    """Return ``inputs`` and ``outputs``, in the order of the code's arguments.

    ``tables`` are those of the metadata, with the same keys.
    """
    shaped = {"inputs": relay.inputs, "outputs": relay.outputs}
    if code.is_c:
        borders = {kind: _of_fields(code, kind, tables[kind], shaped[kind]) for kind in shaped}
    else:
        borders = _packed(code, tables, shaped)
        _check_arguments(code, len(borders["inputs"]) + len(borders["outputs"]))
    return {kind: tuple(_infos(code, kind, borders[kind], pools)) for kind in borders}


def _of_fields(
    code: Code, kind: str, table: Mapping[str, Border], relay: Sequence[Border]
) -> list[Border]:
    """Return the fields of the C interface's struct, with the facts of the metadata and Relay."""
    fields = [field for field in code.struct(kind) if field != "none"]
    if table and len(table) != len(fields):
        code.refuse(f"has {len(fields)} {kind} in its header but {len(table)} in its metadata")
    by_name = {sanitise(border.name): border for border in relay}
    borders = []
    for index, field in enumerate(fields):
        known = [border for name, border in table.items() if sanitise(name) == field]
        if len(known) > 1:
            code.refuse(f"has several {kind} that are {field!r} in C")
        # Relay does not name its results.
        shaped = by_name.get(field) if kind == "inputs" else _at(relay, index, len(fields))
        border = known[0] if known else shaped
        if border is None:
            code.refuse(
                f"does not say what type and size its {kind[:-1]} {field!r} has",
                "export it again with TVM 0.9 or later, or keep the Relay text in src",
            )
        if code.macro(f"{field}_SIZE") not in (None, border.nbytes):
            code.refuse(f"gives {field!r} {border.nbytes} bytes and {code.macro(f'{field}_SIZE')}")
        name = border.name if known or kind == "inputs" else field
        borders.append(Border(name, border.dtype, border.nbytes, _agreed(border, shaped)))
    return borders


def _packed(
    code: Code, tables: Tables, shaped: Mapping[str, Sequence[Border]]
) -> dict[str, list[Border]]:
    """Return the tensors in the order of the packed arguments."""
    text = next((t for t in code.sources.values() if "kTvmgenMetadata_inputs" in t), None)
    if text is None:
        return {
            "inputs": _in_relays_order(code, tables["inputs"], shaped["inputs"]),
            "outputs": _in_numbers_order(code, tables["outputs"], shaped["outputs"]),
        }
    return {kind: _described(code, text, kind, tables[kind]) for kind in tables}


def _described(code: Code, text: str, kind: str, table: Mapping[str, Border]) -> list[Border]:
    """Return the C metadata's tensors, under their original names."""
    described = c_metadata(text, kind)
    if described is None:
        code.refuse(f"has C metadata whose {kind} cannot be read")
    if table and len(table) != len(described):
        code.refuse(f"has {len(described)} {kind} in its code but {len(table)} in its metadata")
    borders = []
    for border in described:
        known = [b for n, b in table.items() if border.name in (n, sanitise(n))]
        # TVM numbers the outputs in the code; a single one is identified without a name.
        original = known[0] if known else next(iter(table.values())) if len(table) == 1 else border
        if (original.dtype, original.nbytes) != (border.dtype, border.nbytes):
            code.refuse(
                f"says that {original.name!r} is {original.dtype} of {original.nbytes} bytes, "
                f"and also {border.dtype} of {border.nbytes}"
            )
        borders.append(Border(original.name, border.dtype, border.nbytes, border.shape))
    return borders


def _in_relays_order(
    code: Code, table: Mapping[str, Border], relay: Sequence[Border]
) -> list[Border]:
    """Return the metadata's inputs in the order of the Relay main's parameters."""
    ordered = [border for border in relay if border.name in table]
    if len(ordered) == len(table):
        return [_with_shape(table[border.name], border) for border in ordered]
    return _only(code, "inputs", table)


def _in_numbers_order(
    code: Code, table: Mapping[str, Border], relay: Sequence[Border]
) -> list[Border]:
    """Return the metadata's outputs in the order of TVM's numbers for them."""
    names = [f"output{index}" for index in range(len(table))]
    if len(table) > 1 and set(names) == set(table):
        pairs = [(table[name], _at(relay, i, len(names))) for i, name in enumerate(names)]
    else:
        pairs = [(border, _at(relay, 0, 1)) for border in _only(code, "outputs", table)]
    return [_with_shape(border, shaped) for border, shaped in pairs]


def _only(code: Code, kind: str, table: Mapping[str, Border]) -> list[Border]:
    if not table:
        code.refuse(f"does not say what {kind} it has", "export it again with TVM 0.9 or later")
    if len(table) > 1:
        code.refuse(
            f"does not say in which order its {len(table)} {kind} are passed",
            "export it with the C interface, or as C sources",
        )
    return list(table.values())


def _check_arguments(code: Code, count: int) -> None:
    """Raise unless the packed entry passes ``count`` tensors on, and sets all of the main's."""
    body = code.entry_body() or ""
    taken = {int(i) for i in re.findall(r"\(TVMValue ?\*\) ?args\)\[(\d{1,4})\]", body)}
    if taken and taken != set(range(count)):
        code.refuse(f"passes the arguments {sorted(taken)} on; its metadata has {count} tensors")
    tensors = re.search(r"\bTVMValue tensors\[(\d{1,4})\]", body)
    filled = len(re.findall(r"\btensors\[\d{1,4}\] =", body))
    if tensors is not None and int(tensors[1]) != filled:
        code.refuse(
            "leaves out its external pools where it calls its main: TVM's packed interface cannot "
            "be handed any",
            "export it with the C interface, or with internal pools",
        )


def _infos(
    code: Code, kind: str, borders: Sequence[Border], pools: Sequence[Pool]
) -> list[TensorInfo]:
    places = code.map_function(kind) if code.maps_tensors else None
    infos = []
    for border in borders:
        what = f"{kind[:-1]} {border.name!r}"
        if border.dtype not in DTYPES:
            code.refuse(
                f"has the {what} of type {border.dtype}", f"supported are {', '.join(DTYPES)}"
            )
        count, rest = divmod(border.nbytes, np.dtype(border.dtype).itemsize)
        if count <= 0 or rest:
            code.refuse(f"has the {what} of {border.nbytes} bytes, which is no {border.dtype}")
        field = sanitise(border.name)
        pool, offset = _place(code, what, field, places, pools)
        infos.append(
            TensorInfo(
                name=border.name,
                # Names that begin with a digit occur in the packed interface only.
                c_name=field if IDENTIFIER.fullmatch(field) else f"tensor_{field}",
                shape=(count,) if border.shape is None else border.shape,
                dtype=border.dtype,
                scale=None,
                zero_point=None,
                nbytes=border.nbytes,
                offset=offset,
                pool=pool,
            )
        )
    return infos


def _place(
    code: Code,
    what: str,
    field: str,
    places: Mapping[str, tuple[str, int]] | None,
    pools: Sequence[Pool],
) -> tuple[int, int | None]:
    """Return index of the pool and offset in it; None as offset of a caller's buffer."""
    if places is None:
        return 0, None
    pool, offset = places.get(field, ("", 0))
    indices = [index for index, candidate in enumerate(pools) if candidate.name == pool]
    if not indices:
        code.refuse(f"does not say where in its pools its {what} lies")
    return indices[0], offset


def _at(borders: Sequence[Border], index: int, count: int) -> Border | None:
    """Return the tensor at ``index`` if there are ``count``."""
    return borders[index] if len(borders) == count else None


def _with_shape(border: Border, shaped: Border | None) -> Border:
    return Border(border.name, border.dtype, border.nbytes, _agreed(border, shaped))


def _agreed(border: Border, shaped: Border | None) -> tuple[int, ...] | None:
    """Return the shape from another source, if that agrees about type and size."""
    if border.shape is not None:
        return border.shape
    if shaped and (shaped.dtype, shaped.nbytes) == (border.dtype, border.nbytes):
        return shaped.shape
    return None
