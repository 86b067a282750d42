"""Verify and measure a model: ``hil.verify`` and ``hil.bench``, of Python and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy.typing as npt

from hil.board import Board
from hil.device import Device, Model
from hil.energy import Recorder, opened_meter
from hil.errors import InputError
from hil.verify.bench import BenchReport, check_countable
from hil.verify.bench import bench as measure
from hil.verify.comparison import Oracle, Report, compare
from hil.verify.oracle import definition_of, expected_outputs, reference_of
from hil.verify.prepare import Prepared, prepared, repeated_by
from hil.verify.samples import first_sample, samples_of
from hilc.artifact.library import Module
from hilc.support.arguments import typed

DEFAULT_SAMPLES = 10


@typed
def verify(
    model: Any,
    samples: Any = DEFAULT_SAMPLES,
    reference: str | Oracle | None = None,
    *,
    board: str | Path | Board | Device | None = None,
    expect: str | Path | Mapping[str, npt.ArrayLike] | None = None,
    seed: int = 0,
    quantize: bool = False,
    per_layer: bool = False,
    keep_state: bool = False,
    source: str | Path | None = None,
    name: str | None = None,
    example: Any = None,
    repeated: Callable[..., Any] | None = None,
    **options: Any,
) -> Report:
    """Run a model on a board and compare every output with a reference.

    ``model`` is a file, a library, an object that :func:`hil.compile` takes, or a model that runs
    already: ``device["kws"]``, or one of :mod:`hilc.host`. ``board`` is a name, a description, a
    selector of a lab, or an open device; a model that runs needs none. Further ``options`` are
    those of :func:`hil.open` and of the compiler (``optimize="ram"``); ``name`` names the model,
    and ``example`` are example arguments of a PyTorch module.

    ``samples`` is a number of random samples (from ``seed``), an NPZ file, arrays by the inputs'
    names with the samples along their first axis, an array for the only input, or samples one by
    one, each a mapping of names to arrays, perhaps within a progress bar. With ``quantize`` floats
    become the inputs' integers (:func:`hilc.executor.quantized`).

    ``reference`` names a reference (by default the one that the model was compiled to compute as),
    or is one that :mod:`hil.oracle` returned; ``expect`` gives the outputs instead, as an NPZ file
    or as arrays. ``source`` is the model file of a library that does not hold it. States are reset
    before each sample, with ``keep_state`` only before the first.

    A mismatch raises nothing: it is in the report, and :meth:`Report.check` raises it. If the board
    fails it is recovered and the sample computed again, by ``repeated`` where that is given.
    """
    definition = definition_of(reference) if isinstance(reference, str) else None
    with prepared(
        model, board, options, name=name, example=example, compared_with=definition
    ) as job:
        given = samples_of(samples, job.inputs, seed, quantize=quantize)
        oracle = _oracle(job, reference, expect, given, source)
        with job.opened() as opened:
            return compare(
                opened,
                given,
                oracle,
                board=job.board,
                per_layer=per_layer,
                keep_state=keep_state,
                repeated=repeated or repeated_by(opened),
            )


def _oracle(
    job: Prepared,
    reference: str | Oracle | None,
    expect: str | Path | Mapping[str, npt.ArrayLike] | None,
    samples: Any,
    source: str | Path | None,
) -> Oracle:
    if expect is not None and (reference is not None or source is not None):
        word = "reference" if reference is not None else "source"
        raise InputError(f"{word} and expect are both given", f"drop {word} or expect")
    if isinstance(reference, Oracle):
        return reference
    if job.module is None:
        raise InputError(
            f"no reference is known for the model {job.name!r} of another kind",
            "give an Oracle as reference",
        )
    if expect is not None:
        return expected_outputs(expect, job.module, len(samples))
    if job.library is None:
        raise InputError(
            f"the library of the model {job.name!r} is not known here, so no reference can run",
            "give reference=hil.oracle.reference_of(library, module), or expect",
        )
    return reference_of(job.library, job.module, reference, source=source)


@typed
def bench(
    model: Any,
    module: Module | None = None,
    *,
    board: str | Path | Board | Device | None = None,
    runs: int = 1,
    warmup: int = 1,
    seed: int = 0,
    sample: Any = None,
    quantize: bool = False,
    energy: str | Recorder | None = None,
    name: str | None = None,
    example: Any = None,
    **options: Any,
) -> BenchReport:
    """Count what an inference costs on a board: instructions or cycles, flash and RAM.

    ``runs`` inferences are counted, after ``warmup`` others.

    ``model``, ``board``, ``name``, ``example`` and ``options`` are those of :func:`hil.verify`.
    Every run has the same states and inputs: ``sample``, a mapping of the inputs' names to arrays
    or an NPZ file whose first sample is taken, or random ones from ``seed``. With ``quantize``
    floats become the inputs' integers. ``energy`` is a meter in the words of ``hil bench
    --energy``, or an open one, which records as many inferences again.

    ``bench(device, module)`` measures a module of an open device.
    """
    with ExitStack() as stack:
        # A meter that supplies the board is there before the board is.
        recorder = stack.enter_context(opened_meter(energy)) if isinstance(energy, str) else energy
        how: dict[str, Any] = {"runs": runs, "warmup": warmup, "seed": seed, "recorder": recorder}
        if module is not None:
            given = first_sample(sample, module.inputs, quantize=quantize)
            return measure(model, module, sample=given, **how)
        job = stack.enter_context(
            prepared(model, board, options, name=name, example=example, check=check_countable)
        )
        given = first_sample(sample, job.inputs, quantize=quantize)
        opened = stack.enter_context(job.opened())
        if not isinstance(opened, Model):
            raise InputError(
                f"{job.name!r} does not run on a board, so nothing is counted", "give a board"
            )
        run = partial(measure, opened.device, opened.module, sample=given, **how)
        return opened.device.repeated(run)
