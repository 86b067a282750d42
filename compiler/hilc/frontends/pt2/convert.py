"""From an exported program to an ONNX model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, zip_longest

import numpy as np
import onnx

from hilc.errors import InputError, ModelError, UnsupportedError
from hilc.frontends.onnx.states import state_metadata
from hilc.frontends.pt2 import translators
from hilc.frontends.pt2.model import (
    REAL_PARTS,
    OnnxModel,
    Operation,
    UnsupportedOperatorError,
    require_type,
    translator_of,
    unknown,
    unknown_of_complex,
)
from hilc.frontends.pt2.program import Call, Program, Ref, Region, Signature, Symbol, place
from hilc.frontends.pt2.sizes import Sizes, solve
from hilc.frontends.readers import OpenShapeError
from hilc.ir import Array

assert translators

#: Operators whose output shares the memory of their input.
_VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "alias", "broadcast_to", "chunk", "contiguous", "detach", "diagonal", "expand", "expand_as",
        "flatten", "movedim", "narrow", "permute", "ravel", "reshape", "select", "slice", "split",
        "split_with_sizes", "squeeze", "swapaxes", "t", "to", "transpose", "unbind", "unflatten",
        "unsqueeze", "view", "view_as",
    )
)  # fmt: skip
#: Begins of the names of functions on Python numbers.
_ON_NUMBERS = ("_operator.", "math.", "torch.sym_")
#: Operators that make a Python number of a tensor's value.
_READ_VALUES = frozenset(("aten.item.default", "aten._local_scalar_dense.default"))


def convert(program: Program, shapes: Mapping[str, tuple[int, ...]], name: str) -> onnx.ModelProto:
    """Return the ONNX model of a program whose inputs have these shapes.

    Buffers that a run changes become states (:mod:`hilc.frontends.onnx.states`).
    """
    return _Converter(program, shapes).model(name)


class _RegionConverter:
    """The walk over the calls of a region, into a model."""

    def __init__(
        self, region: Region, sizes: Sizes, model: OnnxModel, read: Iterable[str],
    ) -> None:  # fmt: skip
        self._region = region
        self._sizes = sizes
        self._model = model
        #: The current name of each tensor of the region.
        self._names: dict[str, str] = {}
        #: The tensor whose memory another shares.
        self._shares: dict[str, str] = {}
        #: Tensors whose memory has been written to by another.
        self._stale: set[str] = set()
        #: The value after a run of each buffer that a run changes.
        self._mutated: dict[str, str] = {}
        #: Outputs that their translator does not make, with the call and their position.
        self._untranslated: dict[str, tuple[Call, int]] = {}
        #: The tensors that a call, or the caller, reads.
        self._read = {
            ref.name for call in region.calls for ref in _refs(tuple(call.arguments.values()))
        } | set(read)

    def _walk(self) -> None:
        for call in self._region.calls:
            with _located(call):
                self._translate(call)

    def _run(
        self, region: Region, operands: Sequence[str], model: OnnxModel
    ) -> list[tuple[str, Signature]]:
        """Translate the calls of an inner region into a model; return its outputs."""
        outputs = [ref for ref in region.outputs if isinstance(ref, Ref)]
        inputs = [ref.name for ref in region.inputs if isinstance(ref, Ref)]
        if len(outputs) != len(region.outputs) or len(inputs) != len(operands):
            raise UnsupportedError(
                "a graph that it runs takes or returns numbers beside tensors",
                "let it take and return tensors, torch.tensor(x)",
            )
        inner = _RegionConverter(
            region, self._sizes.within(region.symbols), model, [ref.name for ref in outputs]
        )
        inner._names.update(zip(inputs, operands, strict=True))
        inner._walk()
        return [
            (inner._current(ref.name), inner._sizes.signature(region.signatures[ref.name]))
            for ref in outputs
        ]

    def _translate(self, call: Call) -> None:
        written = _written(call)
        if not list(_refs(call.outputs)) and call.target.startswith(_ON_NUMBERS):
            return  # the program states what it gives, as an expression of open sizes
        name = call.target
        if written is not None:
            head, _, overload = call.target.rpartition(".")
            name = f"{head.removesuffix('_')}.{overload}"
        self._require_known_shapes(call)
        of_complex = self._is_complex(call)
        translator = translator_of(name, of_complex=of_complex)
        if translator is None:
            raise unknown_of_complex(call.target) if of_complex else unknown(call.target)
        for value in _refs(tuple(call.arguments.values())):
            if value.name in self._untranslated:
                raise self._unread(value.name, call.target)
            if value.name in self._stale:
                raise UnsupportedError(
                    f"{call.target} reads {value.name!r}, whose memory an operation in place has "
                    "changed",
                    "save program.run_decompositions({}), which has no operations in place",
                )
        call = Call(name, call.arguments, call.outputs, call.index, call.source)
        operation = Operation(
            call, self._model, self._names, self._region.signatures, self._sizes,
            set(self._mutated), self._read, self._run,
        )  # fmt: skip
        made = translator(operation)
        results = [made] if isinstance(made, str) else list(made)
        refs = operation.output_refs
        for number, (ref, result) in enumerate(zip_longest(refs, results[: len(refs)])):
            if isinstance(ref, Ref) and result:
                self._names[ref.name] = result
                self._model.rename(result, ref.name)
            elif isinstance(ref, Ref):
                self._untranslated[ref.name] = (call, number)
        if written is not None and refs:
            self._overwrite(written.name, refs[0].name)
        elif name.rpartition(".")[0] in _VIEWS:
            for source in islice(_refs(tuple(call.arguments.values())), 1):
                self._shares.update((ref.name, self._root(source.name)) for ref in refs)

    def _is_complex(self, call: Call) -> bool:
        """Return whether a call takes or makes complex numbers."""
        signatures = self._region.signatures
        refs = (*_refs(tuple(call.arguments.values())), *_refs(call.outputs))
        return any(r.name in signatures and signatures[r.name].dtype in REAL_PARTS for r in refs)

    def _require_known_shapes(self, call: Call) -> None:
        """Refuse an operator that makes a shape, or a number, depend on values of tensors."""
        for output in _parts(call.outputs):
            if isinstance(output, Ref) and output.name in self._region.signatures:
                shape = self._region.signatures[output.name].shape
                if not all(map(self._sizes.is_known, shape)):
                    listed = ", ".join(map(str, shape))
                    raise UnsupportedOperatorError(
                        f"{call.target} makes a tensor of the shape [{listed}]; shapes that depend "
                        "on values are not supported",
                        "compute with tensors of fixed shapes, for example torch.where(mask, x, 0) "
                        "in place of x[mask] or nonzero",
                        call.target,
                    )
            if isinstance(output, Symbol) and call.target in _READ_VALUES:
                raise UnsupportedOperatorError(
                    f"{call.target} makes a Python number of a value known only at run time, which "
                    "is not supported",
                    "keep the value in a tensor",
                    call.target,
                )

    def _overwrite(self, target: str, value: str) -> None:
        """Let a tensor have another value from here on."""
        root = self._root(target)
        sharing = {name for name, own in self._shares.items() if own == root} | {root}
        self._stale |= sharing - {target, value}
        if target != root:
            # Part of another tensor is written: reading that needs a scatter.
            self._stale.add(root)
        self._names[target] = self._names[value]
        self._shares[value] = root
        if target in self._mutated:
            self._mutated[target] = self._names[value]

    def _root(self, name: str) -> str:
        return self._shares.get(name, name)

    def _unread(self, name: str, reader: str) -> UnsupportedOperatorError:
        """Return the error for reading an output that its translator does not make."""
        call, number = self._untranslated[name]
        place = f" at {call.source}" if call.source else ""
        return UnsupportedOperatorError(
            f"{reader} reads output {number} of {call.target}{place}, which is not supported",
            "use the first output only",
            call.target,
        )

    def _current(self, name: str) -> str:
        if name in self._untranslated:
            raise self._unread(name, "the program's output")
        if name not in self._names:
            raise ModelError(f"no call computes the output {name!r}")
        return self._names[name]


class _Converter(_RegionConverter):
    """The walk over a whole program."""

    def __init__(self, program: Program, shapes: Mapping[str, tuple[int, ...]]) -> None:
        region = program.region
        super().__init__(
            region, Sizes(_open_sizes(program, shapes), region.symbols),
            OnnxModel(region.signatures), {*program.outputs, *program.mutated.values()},
        )  # fmt: skip
        self._program = program
        self._outputs: set[str] = set()

    def model(self, name: str) -> onnx.ModelProto:
        """Return the ONNX model."""
        program = self._program
        for name in (*program.inputs, *program.outputs):
            require_type(name, self._region.signatures[name].dtype)
        given = self._declared_inputs()
        self._walk()
        for before, after in program.mutated.items():
            self._mutated[before] = self._current(after)
        signatures = {n: self._sizes.signature(s) for n, s in self._region.signatures.items()}
        outputs = [self._own(output) for output in program.outputs]
        states = {
            before: self._copied(after, program.buffers[before])
            for before, after in self._mutated.items()
        }
        for before, after in states.items():
            given[before] = signatures[before]
            signatures[after] = signatures[before]
        for output, original in zip(outputs, program.outputs, strict=True):
            signatures[output] = signatures[original]
        model = self._model.proto(name, given, [*outputs, *states.values()], signatures)
        model.metadata_props.extend(state_metadata(states))
        return model

    def _declared_inputs(self) -> dict[str, Signature]:
        """Name inputs and constants; return the signatures of the inputs."""
        signatures = self._region.signatures
        states = set(self._program.mutated) | set(self._written_buffers())
        for name, value in self._program.constants.items():
            self._names[name] = name
            checked = _checked(name, value, signatures[name])
            if name in states:
                self._mutated[name] = name
            if checked.dtype.kind == "c":
                parts = (self._model.constant(name, np.array(p)) for p in (value.real, value.imag))
                self._model.pairs[name] = next(parts), next(parts)
            else:
                self._model.constants[name] = checked
        given = {}
        for name in self._program.inputs:
            self._names[name] = name
            given[name] = self._sizes.signature(signatures[name])
        return given

    def _written_buffers(self) -> Iterator[str]:
        """Yield the buffers that an operation in place writes to."""
        for call in self._region.calls:
            target = _written(call)
            if target is not None and target.name in self._program.buffers:
                yield target.name

    def _own(self, output: str) -> str:
        """Return the name of an output that only this output has."""
        current = self._current(output)
        is_computed = any(current in node.output for node in self._model.nodes)
        if is_computed and self._model.final(current) == output and output not in self._outputs:
            self._outputs.add(output)
            return output
        return self._copied(current, output)

    def _copied(self, current: str, base: str) -> str:
        """Return the name of a copy of a tensor."""
        name = self._model.fresh(base)
        self._model.nodes.append(onnx.helper.make_node("Identity", [current], [name]))
        return name


def _written(call: Call) -> Ref | None:
    """Return the tensor that an operation in place changes: PyTorch's end in an underscore."""
    name = call.target.rpartition(".")[0]
    if not name.startswith("aten.") or not name.endswith("_") or name.endswith("__"):
        return None
    value = call.arguments.get("self", call.arguments.get("input"))
    return value if isinstance(value, Ref) else None


def _refs(value: object) -> Iterator[Ref]:
    return (part for part in _parts(value) if isinstance(part, Ref))


def _parts(value: object) -> Iterator[object]:
    """Yield a value, or the values in a tuple."""
    if isinstance(value, tuple):
        for part in value:
            yield from _parts(part)
    else:
        yield value


def _checked(name: str, value: Array, signature: Signature) -> Array:
    if (value.dtype.name, value.shape) != (signature.dtype, signature.shape):
        raise ModelError(
            f"the constant {name!r} is {value.dtype.name}{list(value.shape)}, and the program "
            f"declares {signature.dtype}{list(signature.shape)}",
            "export and save the program again",
        )
    return value


def _open_sizes(program: Program, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Return the open sizes, which the stated shapes must give all."""
    signatures = program.region.signatures
    found: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in program.inputs:
            raise InputError(
                f"the model has no input {name!r}, whose shape is stated",
                f"its inputs are {', '.join(map(repr, program.inputs)) or 'none'}",
            )
        own = solve(signatures[name], shape)
        if own is None or any(found.get(size, value) != value for size, value in own.items()):
            declared = ", ".join(map(str, signatures[name].shape))
            raise InputError(
                f"the input {name!r} is [{declared}], which the shape {list(shape)} does not fit",
                "state a size for each dimension, and the same for sizes of one name",
            )
        found.update(own)
    for name in program.inputs:
        listed = signatures[name].shape
        if any(isinstance(s, str) and s.isidentifier() and s not in found for s in listed):
            raise OpenShapeError(
                f"the input {name!r} has the open shape [{', '.join(map(str, listed))}]",
                name,
                listed,
            )
    return found


@contextmanager
def _located(call: Call) -> Iterator[None]:
    """Put the call, and the line that made it, in front of a complaint about it."""
    label = place(call.index, call.source)
    try:
        yield
    except UnsupportedOperatorError as error:
        raise UnsupportedOperatorError(
            f"{label}: {error.fact}", error.hint, error.target
        ) from error
    except ModelError as error:
        raise type(error)(f"{label}: {error.fact}", error.hint) from error
    except KeyError as error:
        raise ModelError(f"{label}: {call.target} lacks {error}") from error
    except (np.exceptions.AxisError, ValueError, TypeError, IndexError) as error:
        raise ModelError(f"{label}: {call.target} is inconsistent: {error}") from error
