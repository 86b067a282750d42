"""Signatures of a TFLite file: its entry points, each a subgraph with names of inputs and outputs.

One entry point is compiled. A file with others is refused (:func:`require_one_entry`,
:func:`require_all_called`), as a part that is left out without a message would also be left out of
every comparison. :func:`selected` makes the file of one signature, which the compiler, the
libraries and the references then take for the model: none of them can run another one.

Signatures of one file may share variables. Here each has states of its own.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tflite

from hilc.errors import InputError, ModelError, UnsupportedError
from hilc.frontends.tflite.flatbuffer import check
from hilc.frontends.tflite.schema import MODEL, OPERATOR_NAMES, OPERATORS
from hilc.frontends.tflite.values import builtin_code, text_of, unique_names, vector
from hilc.support.identifiers import unused
from hilc.support.suggest import nearest

#: Limit of a name in bytes: many tables can refer to one long name.
_MAX_NAME = 1000
#: Limits of what a message lists, and of the variables of a subgraph that are compared.
_LISTED, _COMPARED = 8, 256
#: Options that name subgraphs, with their slots in the option table.
_SLOTS: Mapping[str, Mapping[str, int]] = {
    "IF": {"ThenSubgraphIndex": 0, "ElseSubgraphIndex": 1},
    "WHILE": {"CondSubgraphIndex": 0, "BodySubgraphIndex": 1},
    "CALL_ONCE": {"InitSubgraphIndex": 0},
}
#: Slots of the tables that are changed.
_SUBGRAPHS, _SIGNATURES, _SUBGRAPH_INDEX, _TENSOR_NAME = 2, 7, 4, 3


class EntriesError(ModelError):
    """A file has entry points beside the one that would be compiled."""

    #: Remedy where no signature can be selected.
    ONE_ENTRY = "give a file of one entry point: export the model with that signature alone"


def require_one_entry(model: Any) -> None:
    """Raise :class:`EntriesError` unless all signatures are of the first subgraph."""
    signatures = _signatures(model)
    subgraphs = {signature.SubgraphIndex() for signature in signatures}
    if not subgraphs <= {0}:
        fact = f"the file has {_counted(signatures)}, and one is compiled: {_listed(signatures)}"
        if len(signatures) == 1:
            fact = f"the file's only signature, {_listed(signatures)}, is not its first subgraph"
        raise EntriesError(
            fact,
            f"{_choice(signatures)}{_shared(model, subgraphs)}",
        )


def require_all_called(model: Any) -> None:
    """Raise :class:`EntriesError` for a subgraph that the first one does not reach.

    To be called when the operators are known to be supported: only of those it is known what they
    call.
    """
    reached = {0} if model.SubgraphsLength() == 1 else _reached(model, 0)
    if len(reached) < model.SubgraphsLength():
        signatures = _signatures(model)
        others = [n for n in range(model.SubgraphsLength()) if n not in reached]
        shown = ", ".join(map(str, others[:_LISTED])) + ("..." if len(others) > _LISTED else "")
        raise EntriesError(
            f"no operator calls {len(others)} of the file's {model.SubgraphsLength()} subgraphs "
            f"({shown}), so they would be left out; {_counted(signatures)}"
            + (f": {_listed(signatures)}" if signatures else ""),
            _choice(signatures),
        )


def selected(data: bytes, name: str) -> bytes:
    """Return the file with the subgraph of the signature ``name`` as its first, the subgraphs that
    it calls, and no other; the inputs and outputs have the signature's names.

    Raise :class:`~hilc.errors.ModelError` for a signature that the file does not have once.
    """
    check(data, MODEL)
    model = tflite.Model.GetRootAs(data, 0)
    signatures = _signatures(model)
    chosen = _named(signatures, name)
    entry = chosen.SubgraphIndex()
    reached = _reached(model, entry)
    if entry and 0 in reached:
        raise UnsupportedError(
            f"the signature {name!r} calls the file's first subgraph",
            "export the model with this signature alone",
        )
    order = [entry, *sorted(reached - {entry})]
    file = bytearray(data)
    for number in order:
        for operator, code in _operators(model, number):
            _renumber(file, operator, code, {old: new for new, old in enumerate(order)})
    # The entries move to lower places only, so that each offset still points forward.
    subgraphs = _vector_place(model, _SUBGRAPHS)
    _set_entries(file, subgraphs, [model.Subgraphs(number)._tab.Pos for number in order])
    _set_entries(file, _vector_place(model, _SIGNATURES), [chosen._tab.Pos])
    if entry:
        _set_word(file, _field_place(chosen, _SUBGRAPH_INDEX), 0)
    subgraph = model.Subgraphs(entry)
    names = _names(subgraph)
    wanted = _wanted_names(chosen, subgraph, names)
    for index, (old, new) in enumerate(zip(names, wanted, strict=True)):
        if old != new:
            _rename(file, subgraph.Tensors(index), new)
    made = bytes(file)
    check(made, MODEL)
    if _names(tflite.Model.GetRootAs(made, 0).Subgraphs(0)) != wanted:
        raise ModelError(
            f"the tensors of the signature {name!r} share their names with others",
            "export the model again",
        )
    return made


# Signatures -----------------------------------------------------------------------------------


def _signatures(model: Any) -> list[Any]:
    """Return the signatures; raise ModelError for one of a subgraph that the file does not have."""
    signatures = [model.SignatureDefs(i) for i in range(model.SignatureDefsLength())]
    for signature in signatures:
        number = signature.SubgraphIndex()
        if not 0 <= number < model.SubgraphsLength():
            raise ModelError(
                f"the signature {_key(signature)!r} is of subgraph {number}; the file has "
                f"{model.SubgraphsLength()}",
                "export the model again",
            )
    return signatures


def _named(signatures: Sequence[Any], name: str) -> Any:
    if not name:
        raise InputError("the name of the signature is empty", "give the name of a signature")
    if not signatures:
        raise ModelError(f"the file has no signatures; {name!r} cannot be selected", _choice(()))
    found = [signature for signature in signatures if _key(signature) == name]
    if not found:
        known = [_key(signature) for signature in signatures[:_COMPARED]]
        raise ModelError(
            f"the file has no signature {name!r}{nearest(name, known)}",
            f"its signatures: {_listed(signatures)}",
        )
    if len(found) > 1:
        raise ModelError(
            f"the file has {len(found)} signatures {name!r}",
            "export the model again, with a name for each signature",
        )
    return found[0]


def _key(signature: Any) -> str:
    return _short_text(signature, 2, signature.SignatureKey)


def _short_text(table: Any, slot: int, read: Any) -> str:
    """Return a text of a table; raise ModelError for a very long one, before it is read."""
    place = table._tab.Offset(4 + 2 * slot)
    if not place:
        return ""
    size = table._tab.VectorLen(place)
    if size > _MAX_NAME:
        raise ModelError(
            f"a name of a signature has {size} bytes; at most {_MAX_NAME} are accepted",
            "export the model with shorter names",
        )
    return text_of(read() or b"")


def _counted(signatures: Sequence[Any]) -> str:
    return f"{len(signatures) or 'no'} signature{'' if len(signatures) == 1 else 's'}"


def _listed(signatures: Sequence[Any]) -> str:
    shown = ", ".join(repr(_key(one)) for one in signatures[:_LISTED])
    more = len(signatures) - _LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def _choice(signatures: Sequence[Any]) -> str:
    """Return the remedy that selects the first signature that has a name."""
    name = next((key for one in signatures[:_COMPARED] if (key := _key(one))), None)
    if name is None:
        return "export the model with one entry point, or with a named signature for each"
    return f"choose one: --signature {shlex.quote(name)}, in Python signature={name!r}"


def _shared(model: Any, entries: set[int]) -> str:
    """Return, for a message, what becomes of a variable that several entry points use."""
    users: dict[tuple[bytes, bytes], int] = {}
    for entry in sorted(entries)[:_LISTED]:
        for key in set(_variables(model, entry)):
            users[key] = users.get(key, 0) + 1
    shared = [key for key, count in users.items() if count > 1]
    if not shared:
        return ""
    return (
        f"; they share {len(shared)} variable{'' if len(shared) == 1 else 's'}: compiled alone, "
        "each has states of its own, which no other signature reads or writes"
    )


def _variables(model: Any, entry: int) -> Iterator[tuple[bytes, bytes]]:
    """Return the first resources that an entry point or what it calls names."""
    found = 0
    for number in sorted(_reached(model, entry)):
        for operator, code in _operators(model, number):
            if code != "VAR_HANDLE" or found == _COMPARED:
                continue
            found += 1
            container, name = OPERATORS[code].read_options(
                operator, lambda o: (o.Container(), o.SharedName())
            )
            yield (container or b"", name or b"")


# Subgraphs ------------------------------------------------------------------------------------


def _operators(model: Any, number: int) -> Iterator[tuple[Any, str]]:
    """Return the operators of a subgraph, with their names; empty for one without a valid code."""
    subgraph = model.Subgraphs(number)
    for i in range(subgraph.OperatorsLength()):
        operator = subgraph.Operators(i)
        index = operator.OpcodeIndex()
        known = 0 <= index < model.OperatorCodesLength()
        code = builtin_code(model.OperatorCodes(index)) if known else None
        yield operator, "" if code is None else OPERATOR_NAMES.get(code, "")


def _reached(model: Any, entry: int) -> set[int]:
    """Return the subgraphs that run with ``entry``."""
    reached, left = {entry}, [entry]
    while left:
        for operator, code in _operators(model, left.pop()):
            called = {n for n in _called(operator, code) if 0 <= n < model.SubgraphsLength()}
            left += called - reached
            reached |= called
    return reached


def _called(operator: Any, code: str) -> list[int]:
    slots = _SLOTS.get(code)
    if slots is None:
        return []
    return OPERATORS[code].read_options(
        operator, lambda options: [int(getattr(options, accessor)()) for accessor in slots]
    )


# Changes of the file --------------------------------------------------------------------------


def _renumber(file: bytearray, operator: Any, code: str, numbers: Mapping[int, int]) -> None:
    """Write the new numbers of the subgraphs that an operator calls.

    A field that is absent means the first subgraph, which no operator may call.
    """
    options = operator.BuiltinOptions()
    for old, slot in zip(_called(operator, code), _SLOTS.get(code, {}).values(), strict=False):
        place = options.Offset(4 + 2 * slot) if options is not None else 0
        if place and old in numbers:
            _set_word(file, options.Pos + place, numbers[old])


def _vector_place(table: Any, slot: int) -> int:
    """Return the place of a vector's first entry."""
    return int(table._tab.Vector(table._tab.Offset(4 + 2 * slot)))


def _field_place(table: Any, slot: int) -> int:
    return int(table._tab.Pos + table._tab.Offset(4 + 2 * slot))


def _set_entries(file: bytearray, place: int, targets: Sequence[int]) -> None:
    """Let the vector at ``place`` have the tables at ``targets`` as its entries."""
    _set_word(file, place - 4, len(targets))
    for index, target in enumerate(targets):
        _set_word(file, place + 4 * index, target - place - 4 * index)


def _set_word(file: bytearray, place: int, value: int) -> None:
    file[place : place + 4] = value.to_bytes(4, "little")


def _names(subgraph: Any) -> tuple[str, ...]:
    count = subgraph.TensorsLength()
    return unique_names([subgraph.Tensors(i).Name() or b"" for i in range(count)])


def _wanted_names(signature: Any, subgraph: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Return the tensors' names where inputs and outputs have those of the signature.

    A tensor that has a name of the signature without being it gets its number; so does an output
    with the name of an input.
    """
    given: dict[int, str] = {}
    taken: set[str] = set()
    for kind in ("Inputs", "Outputs"):
        own = set(vector(subgraph, kind))
        for i in range(getattr(signature, f"{kind}Length")()):
            entry = getattr(signature, kind)(i)
            index, name = entry.TensorIndex(), _short_text(entry, 0, entry.Name)
            if index not in own or index >= len(names):
                raise ModelError(
                    f"the signature {_key(signature)!r} names tensor {index}, which is not among "
                    f"the {kind.lower()} of its subgraph",
                    "export the model again",
                )
            if not name or index in given:
                continue
            if name in taken:
                name = unused(f"{name}#{index}", {*taken, *names})
            given[index] = name
            taken.add(name)
    wanted = list(names)
    for index, name in enumerate(names):
        if index in given:
            wanted[index] = given[index]
        elif name in taken:
            wanted[index] = unused(f"{name}#{index}", {*taken, *names, *wanted})
    return tuple(wanted)


def _rename(file: bytearray, tensor: Any, name: str) -> None:
    """Let the name of a tensor be a text at the file's end."""
    place = tensor._tab.Offset(4 + 2 * _TENSOR_NAME)
    if not place:
        raise ModelError("a tensor of the signature has no name", "export the model again")
    raw = name.encode()
    file.extend(bytes(-len(file) % 4))
    place += tensor._tab.Pos
    _set_word(file, place, len(file) - place)
    file.extend(len(raw).to_bytes(4, "little") + raw + b"\0")
