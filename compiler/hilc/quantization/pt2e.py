"""Programs of PyTorch through torchao's PT2E, with this package's quantizer."""

from __future__ import annotations

import copy
import io
import operator
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from hilc.errors import HilError, ModelError
from hilc.frontends.objects import quiet, saved
from hilc.ir import Array
from hilc.quantization.samples import Sample
from hilc.quantization.settings import Settings
from hilc.quantization.source import Quantized, Source
from hilc.support.optional import require

#: Part of the names of observers in a prepared module.
_OBSERVER = "activation_post_process"
_PURPOSE = "the quantization of PyTorch programs"
#: Operator that `run_decompositions` makes of a batch normalization; PT2E does not know it.
_DECOMPOSED = "_native_batch_norm_legit_no_training"


def require_packages() -> None:
    """Raise :class:`~hilc.errors.InputError` unless PyTorch and torchao are there."""
    require("torch", _PURPOSE)
    with quiet():
        require("torchao.quantization.pt2e", _PURPOSE)


#: Suffix of the files that :func:`quantize` makes.
SUFFIX = ".pt2"


def _loaded(data: bytes) -> Any:
    """Return the program of a file, with its weights."""
    torch = require("torch", _PURPOSE)
    try:
        with quiet():
            return torch.export.load(io.BytesIO(data))
    except Exception as error:
        raise ModelError(
            f"PyTorch cannot load the program: {' '.join(str(error).split()):.300}",
            "save it again with torch.export.save of the PyTorch that is installed",
        ) from error


def quantize(
    source: Source, samples: Sequence[Sample], settings: Settings, progress: Any
) -> Quantized:
    """Return the program in floats, and quantized, calibrated with the samples.

    Raise :class:`~hilc.errors.ModelError` if torchao cannot quantize the program.
    """
    program, names = _loaded(source.data), source.graph.inputs
    torch = require("torch", _PURPOSE)
    with quiet():
        tools = require("torchao.quantization.pt2e.quantize_pt2e", _PURPOSE)
        ours = import_module("hilc.quantization.torch_quantizer")
        quantizer = ours.TorchQuantizer(
            calibrator=settings.calibrator,
            percentile=settings.percentile,
            activations=settings.activations,
            per_channel=settings.per_channel,
            exclude=settings.exclude,
        )
        try:
            with torch.no_grad():
                module = _with_plain_batch_norm(torch, _in_parts(torch, program).module())
                ours.convolve_normalizations(module, ours.is_shared)
                observed = tools.prepare_pt2e(module, quantizer)
                plain = _without_observers(observed)
                resets = _buffers(plain)
                for index, sample in enumerate(samples):
                    if index and not settings.keep_state:
                        _reset(observed, resets)
                    observed(*(torch.from_numpy(_copied(sample[name])) for name in names))
                    if progress is not None:
                        progress()
                _reset(observed, resets)
                _leave_infinite(observed)
                converted = tools.convert_pt2e(observed)
                example = tuple(torch.from_numpy(_copied(samples[0][name])) for name in names)
                plain_file, file = (
                    saved(torch, torch.export.export(module, example), source.graph.outputs)
                    for module in (plain, converted)
                )
        except HilError:
            raise
        except Exception as error:
            raise ModelError(
                f"torchao cannot quantize the program: {' '.join(str(error).split()):.300}",
                "leave out the node that it names: --exclude NODE, in Python exclude=[NODE]",
            ) from error
    return Quantized(plain_file, file, quantizer.excluded)


def _buffers(module: Any) -> dict[str, Any]:
    """Return the program's buffers, which runs may change."""
    named = module.named_buffers()
    return {name: value.clone() for name, value in named if _OBSERVER not in name}


def _reset(observed: Any, values: Mapping[str, Any]) -> None:
    """Give buffers the values from before a run; those of observers stay."""
    for name, buffer in observed.named_buffers():
        if name in values:
            buffer.copy_(values[name])


def _copied(array: Array) -> Array:
    """Return an array that PyTorch may write to."""
    return array.copy(order="C")


def _leave_infinite(observed: Any) -> None:
    """Leave tensors in floats that no scale spans: infinite ones, as masks are."""
    for node in list(observed.graph.nodes):
        if node.op != "call_module" or _OBSERVER not in str(node.target):
            continue
        observer = observed.get_submodule(node.target)
        ends = [getattr(observer, name, None) for name in ("min_val", "max_val")]
        if any(end is not None and end.numel() and not end.isfinite().all() for end in ends):
            node.replace_all_uses_with(node.args[0])
            observed.graph.erase_node(node)
    observed.recompile()


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
        scores = scores.masked_fill(~attn_mask, -torch.inf)
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
