"""Programs of PyTorch through torchao's PT2E, with this package's quantizer."""

from __future__ import annotations

import copy
import io
import logging
import operator
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from hilc.errors import HilError, ModelError
from hilc.frontends.objects import file_of
from hilc.ir import Array
from hilc.quantization.packages import require
from hilc.quantization.samples import Sample
from hilc.quantization.settings import Settings
from hilc.quantization.source import Source

#: Part of the names of observers in a prepared module.
_OBSERVER = "activation_post_process"
_PURPOSE = "programs of PyTorch are quantized by torchao"
#: What `run_decompositions` makes of a batch normalization in evaluation, and PT2E does not know.
_DECOMPOSED = "_native_batch_norm_legit_no_training"


def require_packages() -> None:
    """Raise :class:`~hilc.errors.InputError` unless PyTorch and torchao are there."""
    require("torch", _PURPOSE)
    with _quiet():
        require("torchao.quantization.pt2e", _PURPOSE)


#: Suffix of the files that :func:`quantize` makes.
SUFFIX = ".pt2"


def _loaded(data: bytes) -> Any:
    """Return the program of a file, with its weights."""
    torch = require("torch", _PURPOSE)
    try:
        with _quiet():
            return torch.export.load(io.BytesIO(data))
    except Exception as error:
        raise ModelError(
            f"PyTorch cannot load the program: {' '.join(str(error).split()):.300}",
            "save it again with torch.export.save of the PyTorch that is installed",
        ) from error


def quantize(
    source: Source, samples: Sequence[Sample], settings: Settings, progress: Any
) -> tuple[bytes, bytes]:
    """Return the program in floats, and quantized, calibrated with the samples.

    Tensors have the same names in both.
    """
    program, names = _loaded(source.data), source.graph.inputs
    torch = require("torch", _PURPOSE)
    with _quiet():
        tools = require("torchao.quantization.pt2e.quantize_pt2e", _PURPOSE)
        quantizer = import_module("hilc.quantization.torch_quantizer").TorchQuantizer(
            calibrator=settings.calibrator,
            percentile=settings.percentile,
            activations=settings.activations,
            per_channel=settings.per_channel,
            exclude=settings.exclude,
        )
        try:
            with torch.no_grad():
                module = _with_plain_batch_norm(torch, _in_parts(torch, program).module())
                observed = tools.prepare_pt2e(module, quantizer)
                plain = _without_observers(observed)
                state = plain.state_dict()
                before = {n: v.clone() for n, v in state.items() if _OBSERVER not in n}
                for sample in samples:
                    observed(*(torch.from_numpy(_copied(sample[name])) for name in names))
                    if progress is not None:
                        progress()
                # Buffers that a run changes begin with what the program has for them.
                observed.load_state_dict(before, strict=False)
                converted = tools.convert_pt2e(observed)
                example = tuple(torch.from_numpy(_copied(samples[0][name])) for name in names)
                plain_file, file = (
                    file_of(torch.export.export(m, example), None) for m in (plain, converted)
                )
        except HilError:
            raise
        except Exception as error:
            raise ModelError(
                f"torchao cannot quantize the program: {' '.join(str(error).split()):.300}",
                "leave out the node that it names: --exclude NODE",
            ) from error
    assert plain_file is not None
    assert file is not None
    return plain_file, file


def _copied(array: Array) -> Array:
    """Return an array that PyTorch may write to."""
    return array.copy(order="C")


def _without_observers(observed: Any) -> Any:
    """Return a copy of a prepared module in floats: batch normalizations are folded already."""
    plain = copy.deepcopy(observed)
    for node in list(plain.graph.nodes):
        if node.op == "call_module" and _OBSERVER in str(node.target):
            node.replace_all_uses_with(node.args[0])
            plain.graph.erase_node(node)
    plain.recompile()
    return plain


def _in_parts(torch: Any, program: Any) -> Any:
    """Return the program with attention as products and a softmax, each of which is quantized."""
    whole = torch.ops.aten.scaled_dot_product_attention.default
    if all(node.target is not whole for node in program.graph.nodes):
        return program
    return program.run_decompositions({whole: partial(_attention, torch)})


def _attention(
    torch: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Compute attention as PyTorch defines it, in evaluation."""
    length, keys = query.shape[-2], key.shape[-2]
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scaled, shape = query * factor, (*query.shape[:-1], keys)
    if enable_gqa:
        # Queries that share a head of keys are rows of one matrix.
        scaled = scaled.reshape(*key.shape[:-2], -1, query.shape[-1])
    scores = (scaled @ key.transpose(-2, -1)).reshape(shape)
    if is_causal:
        attn_mask = torch.ones(length, keys, dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = torch.where(attn_mask, scores, -torch.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = torch.softmax(scores, -1).reshape(*scaled.shape[:-1], keys)
    made = (weights @ value).reshape(*query.shape[:-1], value.shape[-1])
    # In memory the heads of a place lie together, as what reads it may expect.
    return made.transpose(-3, -2).contiguous().transpose(-3, -2) if made.dim() > 3 else made


def _with_plain_batch_norm(torch: Any, module: Any) -> Any:
    """Replace decomposed batch normalizations by those that PT2E folds into convolutions."""
    aten = torch.ops.aten
    for node in list(module.graph.nodes):
        if node.op != "call_function" or node.target is not getattr(aten, _DECOMPOSED).default:
            continue
        if any(u.target is not operator.getitem or u.args[1] != 0 for u in node.users):
            continue
        x, weight, bias, mean, variance, momentum, epsilon = node.args
        with module.graph.inserting_before(node):
            arguments = (x, weight, bias, mean, variance, False, momentum, epsilon, False)
            plain = module.graph.call_function(aten.batch_norm.default, arguments)
        for user in list(node.users):
            plain.meta = dict(user.meta)
            user.replace_all_uses_with(plain)
            module.graph.erase_node(user)
        module.graph.erase_node(node)
    module.recompile()
    return module


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep PyTorch's remarks on its own future from the user."""
    root = logging.getLogger()
    loggers = [root, *(logging.getLogger(name) for name in ("torch", "torchao"))]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
