"""Calls of packed functions and access to TVM's metadata over the link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, ClassVar

from hil.errors import DeviceError, InputError
from hil.link import protocol, replies
from hil.link.calls import BoardCalls
from hil.link.client import Client
from hil.link.protocol import Command, MetadataList, Value
from hil.link.tensors import TensorRef
from hilc.compat.tvm.metadata import Metadata, MetadataConstant, MetadataTensor, dtype_name


@dataclass(frozen=True)
class Handle:
    """Handle that only the board can use: an address, a module or a function of its runtime."""

    address: int
    kind: int = Value.HANDLE

    #: Kinds of handles that a function accepts as arguments.
    KINDS: ClassVar = (Value.HANDLE, Value.MODULE, Value.FUNCTION)


#: Types of arguments of a packed function over the link.
CallArgument = int | float | str | None | TensorRef | Handle


@dataclass(frozen=True)
class CallResult:
    """Result of a packed function."""

    #: 0 on success.
    returned: int
    value: int | float | str | Handle | None
    #: The runtime's error text; often empty.
    error: str


def functions(client: Client) -> tuple[str, ...]:
    """Return the packed functions of the image in the order of its registry."""
    names: list[str] = []
    count = 1
    with client.as_one("FUNCTION_INFO"):
        while len(names) < count:
            reply, name = client.named(Command.FUNCTION_INFO, {"function": len(names)})
            names.append(name)
            count = reply.functions
    return tuple(names)


def call(client: Client, function: str, arguments: Sequence[CallArgument]) -> CallResult:
    """Call a packed function by name, exactly once.

    Raise :class:`InputError` if the call does not fit into one request.
    """
    values = b"".join(map(_call_argument, arguments))
    name_and_values = protocol.VALUES[protocol.Value.STRING].build({"value": function}) + values
    size = len(name_and_values) + protocol.fixed_bytes(protocol.REQUESTS[Command.CALL])
    if size > client.payload_max or len(arguments) > 0xFF:
        raise InputError(
            f"the call of {function!r} with {len(arguments)} arguments takes {size} bytes; a "
            f"frame of this board holds {client.payload_max}",
            "pass shorter text, or raise frame_max in the board's description",
        )
    fields = {"arguments": len(arguments), "name_and_values": name_and_values}
    reply = client.ask_once(Command.CALL, fields, (function,), 1)
    text = reply.text.decode("utf-8", "replace")
    if reply.returned != 0:
        return CallResult(reply.returned, None, text)
    return CallResult(0, _call_value(reply.kind, reply.value, text), "")


def metadata(client: Client, model: int) -> Metadata:
    """Return TVM's metadata of a model."""

    def tensors(entries: MetadataList, count: int) -> tuple[MetadataTensor, ...]:
        fields = {"model": model, "list": entries}
        return tuple(_metadata_tensor(client, {**fields, "index": i}) for i in range(count))

    with client.as_one("METADATA_INFO"):
        info, mod_name = client.named(Command.METADATA_INFO, {"model": model})
        return Metadata(
            version=info.version,
            mod_name=mod_name,
            inputs=tensors(MetadataList.INPUT, info.inputs),
            outputs=tensors(MetadataList.OUTPUT, info.outputs),
            workspace_pools=tensors(MetadataList.WORKSPACE_POOL, info.workspace_pools),
            constant_pools=tuple(
                _metadata_constant(client, model, index) for index in range(info.constants)
            ),
        )


def _metadata_tensor(client: Client, fields: dict[str, int]) -> MetadataTensor:
    return metadata_tensor_of(*client.named(Command.METADATA_TENSOR, fields))


def _metadata_constant(client: Client, model: int, index: int) -> MetadataConstant:
    reply, name = client.named(Command.METADATA_CONSTANT, {"model": model, "index": index})
    return MetadataConstant(name, reply.byte_offset, reply.data_bytes)


def metadata_tensor_of(reply: Any, name: str) -> MetadataTensor:
    """Return the tensor that a METADATA_TENSOR reply describes.

    Raise :class:`LinkError` if its shape or type is not valid.
    """
    shape = replies.shape_of(reply, protocol.SIDE_BYTES[Command.METADATA_TENSOR])
    replies.require(all(side >= 0 for side in shape), f"tensor {name!r} of the shape {list(shape)}")
    try:
        return MetadataTensor(name, shape, dtype_name(reply.code, reply.bits, reply.lanes))
    except InputError as error:
        raise replies.protocol_error(f"tensor {name!r}: {error.fact}") from None


def _call_argument(argument: CallArgument) -> bytes:
    """Return a call's argument in the protocol's encoding."""
    fields: Any
    match argument:
        case TensorRef():
            kind, fields = Value.TENSOR, argument.fields
        case Handle():
            kind, fields = Value(argument.kind), {"value": argument.address}
        case None:
            kind, fields = Value.NONE, {}
        case str():
            kind, fields = Value.STRING, {"value": argument}
        case float():
            kind, fields = Value.FLOAT, {"value": argument}
        case _:
            kind, fields = Value.INT, {"value": int(argument)}
    built: bytes = protocol.VALUES[kind].build(fields)
    return bytes((kind,)) + built


def _call_value(kind: int, value: bytes, text: str) -> int | float | str | Handle | None:
    """Return a call's result; an unknown kind is returned as a handle."""
    if kind == Value.NONE:
        return None
    if kind == Value.STRING:
        return text
    if kind in (Value.INT, Value.FLOAT):
        number: int | float = protocol.VALUES[Value(kind)].parse(value).value
        return number
    return Handle(protocol.VALUES[Value.HANDLE].parse(value).value, kind)


class TvmCalls(BoardCalls):
    """Calls of packed functions in firmware with TVM's run time."""

    def functions(self, client: Client) -> tuple[str, ...]:
        """Return the names of the functions in the order of the image's table."""
        return functions(client)

    def check(self, name: str, arguments: Sequence[Any]) -> None:
        """Raise :class:`InputError` for a value that cannot be passed to a packed function."""
        for argument in arguments:
            if not isinstance(argument, int | float | str | TensorRef | Handle | NoneType):
                raise InputError(
                    f"{name!r} does not accept an argument of type {type(argument).__name__}",
                    "pass numbers, text, None, or tensors on the board: set_input writes "
                    "one, input_ref names it",
                )
            if isinstance(argument, Handle) and argument.kind not in Handle.KINDS:
                raise InputError(
                    f"{argument}, an argument of {name!r}, is of a kind that cannot be passed"
                )
            if isinstance(argument, int) and not -(1 << 63) <= argument < 1 << 63:
                raise InputError(f"{argument}, an argument of {name!r}, has more than 64 bits")
        for text in (name, *(a for a in arguments if isinstance(a, str))):
            if "\0" in text:
                raise InputError(f"{text!r} contains a zero character, which ends a string in C")

    def call(self, client: Client, name: str, arguments: Sequence[CallArgument]) -> Any:
        """Return the value that the function returns.

        Raise :class:`DeviceError` if its status is not 0.
        """
        result = call(client, name, arguments)
        if result.returned != 0:
            reason = f": {result.error}" if result.error else ""
            raise DeviceError(f"the function {name!r} returned {result.returned:#x}{reason}")
        return result.value

    def metadata(self, client: Client, model: int) -> Metadata:
        """Return the metadata of a model: its name, inputs, outputs and constants."""
        return metadata(client, model)
