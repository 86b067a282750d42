"""What ``hil run`` does."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial

from hil.cli.arguments import checked_board, compiled_for, opened
from hil.cli.console import Console, tensor_values
from hil.cli.render import run_text
from hil.device import Model, RunResult
from hil.errors import InputError
from hil.firmware.project import modules_of
from hil.results.run import RunEntry
from hil.verify.samples import (
    Sample,
    is_saved,
    load_input,
    no_quantization,
    random_sample,
    save_arrays,
)
from hilc.artifact.library import Module, TensorInfo
from hilc.ir import Array
from hilc.support.outputs import check_file


def run_command(args: argparse.Namespace, console: Console) -> int:
    """Run one inference of each model of the image."""
    if args.output:
        check_file(args.output, ".npz", kind="a file of outputs", is_own=is_saved, force=args.force)
    if args.quantize_inputs and not args.input:
        console.warn(no_quantization("--quantize-inputs", "--input"))
    board = checked_board(args)
    libraries = compiled_for(args, board, console)
    images = modules_of(libraries)
    given = _given_inputs(
        args.input,
        {_word(images, module, t): t for module in images for t in module.inputs},
        args.quantize_inputs,
    )
    if args.seed and len(given) == sum(len(module.inputs) for module in images):
        console.warn("--seed has no effect: --input states all inputs")
    inputs: dict[str, Sample] = {}
    for module in images:
        random = random_sample(module.inputs, args.seed, 0)
        words = {tensor.name: _word(images, module, tensor) for tensor in module.inputs}
        for word in words.values():
            if word not in given:
                console.log(f"input {word!r} is random (seed {args.seed})")
        inputs[module.name] = {name: given.get(w, random[name]) for name, w in words.items()}
    outputs: dict[str, Array] = {}
    counts: dict[str, int] = {}
    with opened(args, board, libraries, console) as device:
        for module in images:
            result = device.repeated(partial(_inference, device[module.name], inputs[module.name]))
            counts[module.name] = result.count
            for tensor in module.outputs:
                outputs[_word(images, module, tensor)] = result.outputs[tensor.name]
        counter = device.counter
        if device.simulated is not None:
            console.log(f"memory model: {device.simulated.memory_model}")
        recoveries = device.recovery.unreported() if device.recovery else ()
    if args.output:
        save_arrays(args.output, outputs)
    entry = RunEntry(board.name, counter, counts, tuple(recoveries), tensor_values(outputs))
    console.result(entry, run_text(outputs, counts, counter, recoveries))
    return 0


def _inference(model: Model, inputs: Sample) -> RunResult:
    """Return the result of one run, whose outputs have been read."""
    for name, array in inputs.items():
        model.set_input(name, array)
    result = model.run()
    dict(result.outputs)
    return result


def _word(images: Sequence[Module], module: Module, tensor: TensorInfo) -> str:
    """Return a tensor's name on the command line, with its model's name if there are several."""
    return tensor.name if len(images) == 1 else f"{module.name}/{tensor.name}"


def _given_inputs(
    words: Sequence[str], tensors: Mapping[str, TensorInfo], quantize: bool
) -> dict[str, Array]:
    given: dict[str, Array] = {}
    for word in words:
        # Tensor names and paths may contain "=": match the longest tensor name first.
        name = max((name for name in tensors if word.startswith(f"{name}=")), key=len, default=None)
        if name is None:
            file = word.rpartition("=")[2] or "FILE.npy"
            raise InputError(
                f"--input {word!r} does not begin with the name of an input and '='",
                f"the inputs are {', '.join(tensors)}: write --input {next(iter(tensors))}={file}",
            )
        if name in given:
            raise InputError(f"the input {name!r} is given twice", "give it once")
        path = word[len(name) + 1 :]
        if not path:
            raise InputError(f"--input {word!r} has no file name", f"write {name}=FILE.npy")
        given[name] = load_input(path, tensors[name], quantize=quantize)
    return given
