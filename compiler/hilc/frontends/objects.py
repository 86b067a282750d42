"""Models that other libraries hold as objects: PyTorch's and ONNX's, as the bytes of a file.

The libraries are not imported here: an object of theirs means that its library is there.
"""

from __future__ import annotations

import copy
import io
import logging
import sys
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from hilc.errors import InputError, ModelError
from hilc.frontends.pytorch_files import script_hint
from hilc.support.identifiers import unused
from hilc.support.optional import check_installed

_EXPORT_HINT = (
    "let torch.export.export(module, samples) succeed first; its message says what to change"
)
_BRANCH_HINT = (
    "a branch on a tensor's value is torch.cond(condition, if_true, if_false, (x,)), of functions "
    "that return tensors of one shape; a choice of each element is torch.where"
)


@dataclass(frozen=True)
class NamedFile:
    """A model's file that is held in memory."""

    #: Name of the model.
    name: str
    data: bytes = field(repr=False)


def file_of(model: Any, samples: Sequence[Any] | None) -> bytes | None:
    """Return the file of a model object; None for other objects.

    ``samples`` are example arguments of a PyTorch module, one or a tuple, which give the shapes of
    its inputs. Raise :class:`~hilc.errors.ModelError` for a module that PyTorch cannot export.
    """
    torch, onnx = sys.modules.get("torch"), sys.modules.get("onnx")
    if isinstance(model, NamedFile) and samples is None:
        return model.data
    if torch is not None:
        if isinstance(model, torch.export.ExportedProgram):
            return saved(torch, model)
        if isinstance(model, torch.jit.ScriptModule):
            raise InputError(
                "a TorchScript module was given, which torch.export does not take",
                script_hint("model"),
            )
        if isinstance(model, torch.nn.Module):
            return saved(torch, _exported(torch, model, samples))
    if onnx is not None and isinstance(model, onnx.ModelProto) and samples is None:
        return bytes(model.SerializeToString())
    _refuse_parts(model)
    if samples is not None:
        raise InputError(
            f"samples were given for a model of type {type(model).__name__}",
            "leave them out: only a PyTorch module needs them, to be exported",
        )
    return None


def is_keras_model(model: Any) -> bool:
    """Return whether an object is a model of Keras, which is imported if it is one."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(model, keras.Model)


def _refuse_parts(model: Any) -> None:
    """Raise :class:`~hilc.errors.InputError` for an object that is only part of a model, or has to
    be converted first.
    """
    if is_keras_model(model):
        raise InputError(
            f"the Keras model {model.name!r} was given, which is not compiled as it is",
            "hil.quantize(model, samples) makes an int8 model of it; for float32 give "
            "tf.lite.TFLiteConverter.from_keras_model(model).convert()",
        )
    if isinstance(model, type):
        raise InputError(
            f"the class {model.__name__} was given, which is no model yet",
            f"give an instance of it, with its trained weights: {model.__name__}(...).eval()",
        )
    if isinstance(model, Mapping):
        names = ", ".join(repr(name) for name in list(model)[:3])
        inner = next((f"[{n!r}]" for n in model if isinstance(model[n], OrderedDict)), "")
        raise InputError(
            f"a {type(model).__name__} was given, not a model: it maps {names or 'nothing'}",
            "weights alone (a state_dict) say nothing of the layers: load them into the module, "
            f"module.load_state_dict(weights{inner}), and give the module",
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress PyTorch's deprecation warnings, and its log and standard error where hil reports the
    same fact.
    """
    with _no_logs(), warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _no_logs() -> Iterator[None]:
    """Suppress all logs: PyTorch's loggers have levels and handlers of their own, and theirs print
    the traceback of an error that hil reports.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def name_of(model: Any) -> str:
    """Return a name for a model object: its own, or that of its class."""
    if isinstance(model, NamedFile):
        return model.name
    return type(model).__name__.lower()


def tensor_of(torch: Any, value: Any) -> Any:
    """Return an example argument as a tensor of PyTorch; raise for one that is not an array of
    numbers.
    """
    if isinstance(value, torch.Tensor):
        return value
    try:
        return torch.as_tensor(value)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"a sample is of type {type(value).__name__}, which is no array of numbers: "
            f"{' '.join(str(error).split()):.200}",
            "give a tensor or an array, a tuple of them for a module of several inputs; stack "
            "samples along the first axis: torch.cat(samples)",
        ) from error


def _exported(torch: Any, module: Any, samples: Sequence[Any] | None) -> Any:
    name = type(module).__name__
    if samples is None:
        raise InputError(
            f"the PyTorch module {name} was given without samples",
            "give example arguments, which state the shapes: compile(module, samples=(x,))",
        )
    # What torch.export and torchao give has its mode in its operators.
    if module.training and not isinstance(module, torch.fx.GraphModule):
        raise InputError(
            f"the PyTorch module {name} is in training mode", "call module.eval() before"
        )
    arguments = samples if isinstance(samples, tuple) else (samples,)
    tensors = tuple(tensor_of(torch, part) for part in arguments)
    if any(tensor.is_complex() for tensor in tensors):
        raise InputError(
            f"the PyTorch module {name} was given samples of complex numbers, which no model takes",
            "let it take real and imaginary parts, and join them: torch.view_as_complex(x)",
        )
    _require_taken(torch, module, tensors)
    try:
        with quiet():
            return torch.export.export(module, tensors)
    except Exception as error:
        raise ModelError(
            f"PyTorch cannot export the module {name}: {' '.join(str(error).split()):.300}",
            _EXPORT_HINT if "data-dependent" not in str(error).lower() else _BRANCH_HINT,
        ) from error


def _require_taken(torch: Any, module: Any, tensors: Sequence[Any]) -> None:
    """Raise :class:`~hilc.errors.InputError` for samples with which a module does not run."""
    try:
        with torch.no_grad(), _no_logs():
            copy.deepcopy(module)(*tensors)
    except Exception as error:
        listed = ", ".join(f"{t.dtype}{list(t.shape)}".removeprefix("torch.") for t in tensors)
        weights = next((p.dtype for p in module.parameters()), torch.float32)
        raise InputError(
            f"the PyTorch module {type(module).__name__} does not run with samples of {listed}: "
            f"{' '.join(str(_first_cause(error)).split()):.300}",
            "give tensors of the types and shapes that its forward takes; its parameters are "
            f"{str(weights).removeprefix('torch.')}",
        ) from error


def _first_cause(error: BaseException) -> BaseException:
    """Return the error that PyTorch's compiler met, which it raises others for (``torch.cond``)."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def saved(torch: Any, program: Any, outputs: Sequence[str] = ()) -> bytes:
    """Return the archive of a program, after replacing in-place operations, and operators that are
    not supported by those that PyTorch makes them of.

    ``outputs`` are names for what it returns, in place of those that PyTorch makes up.

    Raise :class:`~hilc.errors.ModelError` if PyTorch cannot save the program.
    """
    check_installed("onnx", "a program of PyTorch, which becomes an ONNX model")
    decompose = import_module("hilc.frontends.pt2.decompose")
    with quiet():
        table = torch.export.default_decompositions()
        known = {str(operator): operator for operator in table if _is_of_aten(operator)}
    refused: set[str] = set()
    while True:
        replaced = decompose.without_translator(known) | refused
        decompositions = {known[name]: table[known[name]] for name in replaced}
        data = _archive(torch, program, decompositions, outputs)
        target = decompose.refused_operator(data)
        if target not in known or target in replaced:
            return data
        refused.add(target)


def _is_of_aten(operator: Any) -> bool:
    return str(operator).startswith("aten.")


def _archive(
    torch: Any, program: Any, decompositions: Mapping[Any, Any], outputs: Sequence[str]
) -> bytes:
    """Return the archive of a program with operators replaced; raise like :func:`saved`."""
    file = io.BytesIO()
    try:
        with quiet():
            functional = program.run_decompositions(decompositions)
            _name_outputs(functional, outputs)
            _flatten_result(torch, functional)
            torch.export.save(functional, file)
    except Exception as error:
        raise ModelError(
            f"PyTorch cannot save the program: {' '.join(str(error).split()):.300}",
            "let torch.export.save(program.run_decompositions({}), path) succeed first",
        ) from error
    return file.getvalue()


def _flatten_result(torch: Any, program: Any) -> None:
    """Let a program return a tuple: PyTorch saves other structures, such as named tuples, only
    where their classes are registered.
    """
    pytree = torch.utils._pytree
    for entry in program.module_call_graph:
        if entry.fqn == "" and entry.signature is not None:
            count = entry.signature.out_spec.num_leaves
            entry.signature.out_spec = pytree.tree_structure((0,) * count)


def _name_outputs(program: Any, names: Sequence[str]) -> None:
    """Name the outputs of a program, in order; returned inputs keep their names."""
    returned = list(program.graph.output_node().args[0])
    specs = program.graph_signature.output_specs
    nodes = [n for n, spec in zip(returned, specs, strict=True) if spec.kind.name == "USER_OUTPUT"]
    owners = {node.name: node for node in program.graph.nodes}
    for node, name in zip(nodes, names, strict=False):
        other = owners.get(name)
        is_input = other is not None and other.op == "placeholder"
        if node.op != "call_function" or node.name in names or is_input:
            continue
        if other is not None:
            other.name = unused(f"{name}_before", owners)
            owners[other.name] = other
        node.name = name
        owners[name] = node
    for node, spec in zip(returned, specs, strict=True):
        if hasattr(spec.arg, "name") and hasattr(node, "name"):
            spec.arg.name = node.name
