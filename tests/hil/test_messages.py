"""Messages by the struct module are those of construct's definitions, to the byte."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from construct import ConstructError, Container

from hil.link import messages, protocol

MESSAGES = {
    f"{kind} {code.name}": message
    for kind, table in (
        ("request", protocol.REQUESTS),
        ("reply", protocol.REPLIES),
        ("event", protocol.EVENTS),
    )
    for code, message in table.items()
} | {"error": protocol.ERROR, "first hello": protocol.HELLO_REPLIES[1]}


def _by_construct(message: Any, payload: bytes) -> dict[str, Any] | None:
    try:
        fields = message.parse(payload)
        if message.build(fields) != payload:
            return None
    except ConstructError:
        return None
    return {name: value for name, value in fields.items() if name != "_io"}


def _payloads(message: Any, dice: random.Random) -> Iterator[bytes]:
    for _ in range(60):
        data = bytearray(dice.randbytes(dice.randrange(90)))
        if dice.random() < 0.7:
            data[:1] = b"\0"  # the status of most replies
        yield bytes(data)
    for size in range(100):
        yield bytes(size)
    yield protocol.MAGIC + bytes(3)


@pytest.mark.parametrize("name", MESSAGES)
def test_fields_are_those_of_construct(name: str) -> None:
    message, read = MESSAGES[name], 0
    for payload in _payloads(message, random.Random(name)):
        expected, found = _by_construct(message, payload), messages.parse(message, payload)
        if expected is None:
            assert found is None, payload
            continue
        assert found is not None, payload
        fields = {key: value for key, value in found.items() if key != "_io"}
        assert fields == expected
        assert messages.build(message, found) == payload
        read += 1
    assert read > 0


def test_a_misfit_is_refused_as_construct_does() -> None:
    read = protocol.REQUESTS[protocol.Command.READ]
    good = dict(model=0, list=1, layer=2, index=3, offset=4, length=5)
    assert messages.build(read, good) == read.build(good)
    for bad in ({"length": 1 << 16}, {"model": -1}, {"offset": 1.5}):
        with pytest.raises(ConstructError):
            messages.build(read, good | bad)
    with pytest.raises(KeyError):
        messages.build(read, {"model": 0})
    hello = protocol.HELLO_REPLIES[2]
    with pytest.raises(ConstructError):
        messages.build(hello, Container(hello.parse(bytes(60))) | {"build_id": b"short"})
    with pytest.raises(AttributeError):
        _ = messages.parse(protocol.ERROR, bytes(5)).nothing  # type: ignore[union-attr]


@pytest.mark.parametrize("name", MESSAGES)
def test_a_layout_builds_what_construct_builds(name: str) -> None:
    """By itself: what the struct module cannot build is left to construct, which is slower."""
    message = MESSAGES[name]
    layout = messages._layout(message)
    if layout is None or not layout.is_written:
        return
    for payload in _payloads(message, random.Random(name)):
        if (fields := _by_construct(message, payload)) is not None:
            assert layout.build(fields) == payload
            constants = {layout._names[index] for index in layout._constants}
            given = {key: value for key, value in fields.items() if key not in constants}
            assert layout.build(given) == payload
