"""Models that other libraries hold as objects: PyTorch's and ONNX's, as the bytes of a file.

The libraries are not imported here: an object of theirs means that its library is there.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hilc.errors import InputError, ModelError


@dataclass(frozen=True)
class NamedFile:
    """A model's file that is held in memory."""

    #: Name of the model.
    name: str
    data: bytes = field(repr=False)


def file_of(model: Any, samples: Sequence[Any] | None) -> bytes | None:
    """Return the file of a model object; None for what is none.

    ``samples`` are example arguments of a PyTorch module, one or a tuple, which give the shapes of
    its inputs. Raise :class:`~hilc.errors.ModelError` for a module that PyTorch cannot export.
    """
    torch, onnx = sys.modules.get("torch"), sys.modules.get("onnx")
    if isinstance(model, NamedFile) and samples is None:
        return model.data
    if torch is not None:
        if isinstance(model, torch.export.ExportedProgram):
            return _saved(torch, model)
        if isinstance(model, torch.nn.Module):
            return _saved(torch, _exported(torch, model, samples))
    if samples is not None:
        raise InputError(
            f"samples were given for a model of type {type(model).__name__}",
            "leave them out: only a PyTorch module needs them, to be exported",
        )
    if onnx is not None and isinstance(model, onnx.ModelProto):
        return bytes(model.SerializeToString())
    return None


def name_of(model: Any) -> str:
    """Return a name for a model object: its own, or that of its class."""
    if isinstance(model, NamedFile):
        return model.name
    return type(model).__name__.lower()


def tensor_of(torch: Any, value: Any) -> Any:
    """Return an example argument as a tensor of PyTorch; refuse what is no array of numbers."""
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
    try:
        return torch.export.export(module, tensors)
    except Exception as error:
        raise ModelError(
            f"PyTorch cannot export the module {name}: {' '.join(str(error).split()):.300}",
            "let torch.export.export(module, samples) succeed first; its message says what to "
            "change",
        ) from error


def _saved(torch: Any, program: Any) -> bytes:
    """Return the archive of a program, whose operations in place are replaced by others first."""
    file = io.BytesIO()
    try:
        # PyTorch warns of its own future.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.export.save(program.run_decompositions({}), file)
    except Exception as error:
        raise ModelError(
            f"PyTorch cannot save the program: {' '.join(str(error).split()):.300}",
            "let torch.export.save(program.run_decompositions({}), path) succeed first",
        ) from error
    return file.getvalue()
