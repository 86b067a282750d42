"""Verify, measure and evaluate a model: ``hil.verify``, ``hil.bench``, ``hil.evaluate``, of Python
and the command line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from hil.board import Board
from hil.device import Device, Model
from hil.energy import Recorder, opened_meter
from hil.errors import InputError
from hil.results.parts import Provenance
from hil.verify.bench import BenchReport, check_countable
from hil.verify.bench import bench as measure
from hil.verify.comparison import Oracle, Report, RunnableModel, compare
from hil.verify.cycles import check_estimable, estimate_cycles
from hil.verify.datasets import DataSet, Scaling, array_data, load_data
from hil.verify.evaluation import (
    Evaluation,
    MetricLimit,
    ScoreKind,
    checked_metrics,
    digest_of_library,
    evaluate_model,
)
from hil.verify.fidelity import FidelityMeter, exact_meter, float_meter
from hil.verify.metrics import Metric
from hil.verify.oracle import definition_of, expected_outputs, reference_of
from hil.verify.prepare import Prepared, check_options, prepared, recoveries_of, repeated_by
from hil.verify.provenance import call_text, provenance
from hil.verify.samples import (
    CHECK_S,
    CHECK_SAMPLES,
    Sample,
    StandardSamples,
    TimeBoxed,
    first_sample,
    random_sample,
    samples_of,
)
from hilc.artifact.library import ModelLibrary, Module, TensorInfo
from hilc.support.arguments import typed
from hilc.support.suggest import listed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hil.device.session import DeviceKeywords


@typed
def verify(
    model: Any,
    samples: Any = None,
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
    metrics: bool = False,
    float_model: str | Path | None = None,
    allow_fallback: bool | None = None,
    **options: Unpack[DeviceKeywords],
) -> Report:
    """Run a model on a board and compare every output with a reference.

    ``model`` is a file, a library, an object that :func:`hil.compile` takes, or a model that runs
    already: ``device["kws"]``, or one of :mod:`hilc.host`. ``board`` is a name, a description, a
    selector of a lab, or an open device; a model that runs needs none. Further ``options`` are
    those of :func:`hil.open` and of the compiler (``optimize="ram"``); ``name`` names the model,
    and ``example`` are example arguments of a PyTorch module.

    Without ``samples`` the inputs are extremes and then random ones, as many as the board computes
    in about five seconds, 10 to 100. Else ``samples`` is a number of random samples (from
    ``seed``), an NPZ file, arrays by the inputs'
    names with the samples along their first axis, an array for the only input, or samples one by
    one, each a mapping of names to arrays, perhaps within a progress bar. With ``quantize`` floats
    become the inputs' integers (:func:`hilc.executor.quantized`).

    ``reference`` names a reference (by default the one that the model was compiled to compute as),
    or is one that :mod:`hil.oracle` returned; ``expect`` gives the outputs instead, as an NPZ file
    or as arrays. ``source`` is the model file of a library that does not hold it. If the default
    reference cannot run, ``allow_fallback`` says whether this compiler's own interpreter may
    replace it: by default not in CI and pytest (:func:`hil.oracle.reference_of`). States are reset
    before each sample, with ``keep_state`` only before the first.

    With ``metrics`` the report says how far the results are from the reference's (RMSE, MAE, SNR
    and others, :mod:`hil.verify.fidelity`), with ``float_model``, a file, also how far they are
    from that model in floats; both for each layer with ``per_layer``.

    A mismatch raises nothing: it is in the report, and :meth:`Report.check` raises it. If the board
    fails it is recovered and the sample computed again, by ``repeated`` where that is given.
    """
    call = call_text(verify, locals())
    check_options(verify, options)
    definition = definition_of(reference) if isinstance(reference, str) else None
    with prepared(
        model, board, options, name=name, example=example, compared_with=definition
    ) as job:
        if samples is None and expect is not None:
            raise InputError("expect is given without samples", "give the inputs as samples")
        given = samples_of(samples, job.inputs, seed, quantize=quantize)
        oracle = _oracle(job, reference, expect, given, source, allow_fallback)
        if float_model is not None and job.module is not None:
            # Before a board is started.
            float_meter(float_model, job.module.inputs, job.module.outputs)
        with job.opened() as opened:
            report = compare(
                opened,
                given,
                oracle,
                board=job.board,
                per_layer=per_layer,
                keep_state=keep_state,
                repeated=repeated or repeated_by(opened),
                meters=_meters(opened, oracle, metrics, float_model),
            )
            used = StandardSamples(job.inputs, seed, report.samples) if samples is None else given
            made_from = _made_from(job, opened, used, call)
            return replace(report, provenance=made_from, recoveries=recoveries_of(opened))


def _meters(
    model: RunnableModel, oracle: Oracle, metrics: bool, float_model: str | Path | None
) -> list[FidelityMeter]:
    meters = []
    if metrics:
        meters.append(exact_meter(oracle.name, model.outputs, model.layers))
    if float_model is not None:
        meters.append(float_meter(float_model, model.inputs, model.outputs))
    return meters


def _made_from(job: Prepared, model: RunnableModel, samples: Any, call: str) -> Provenance | None:
    """Return what a result was made from; None for a device of the caller, who may know more, and
    for samples that can be read once only.
    """
    if job.description is None or not isinstance(model, Model) or not isinstance(samples, Sequence):
        return None
    firmware = model.device.firmware
    if firmware is None or job.library is None:
        return None
    return provenance(
        model.device,
        firmware,
        job.library,
        model.module,
        samples,
        runner=job.runner,
        options=job.options,
        call=call,
    )


def _oracle(
    job: Prepared,
    reference: str | Oracle | None,
    expect: str | Path | Mapping[str, npt.ArrayLike] | None,
    samples: Any,
    source: str | Path | None,
    allow_fallback: bool | None = None,
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
    return reference_of(
        job.library, job.module, reference, source=source, allow_fallback=allow_fallback
    )


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
    cycles: bool = False,
    check: bool | Oracle = True,
    source: str | Path | None = None,
    allow_fallback: bool | None = None,
    name: str | None = None,
    example: Any = None,
    **options: Unpack[DeviceKeywords],
) -> BenchReport:
    """Count what an inference costs on a board: instructions or cycles, flash and RAM.

    ``runs`` inferences are counted, after ``warmup`` others.

    ``model``, ``board``, ``name``, ``example`` and ``options`` are those of :func:`hil.verify`.
    Every run has the same states and inputs: ``sample``, a mapping of the inputs' names to arrays
    or an NPZ file whose first sample is taken, or random ones from ``seed``. With ``quantize``
    floats become the inputs' integers. ``energy`` is a meter in the words of ``hil bench
    --energy``, or an open one, which records as many inferences again.

    With ``cycles`` the report has an ``estimate`` too: the executed instructions by kind, and the
    cycles that the core would take for them by Arm's table, from another run of the firmware in
    QEMU.

    Then the outputs of another inference, which is not counted, are compared with the reference
    (``report.checked``); a difference raises nothing here, but :meth:`BenchReport.check` does.
    ``check`` may be a reference that :mod:`hil.oracle` returned; with False nothing is compared.
    ``source`` and ``allow_fallback`` are those of :func:`hil.verify`.

    ``bench(device, module)`` measures a module of an open device.
    """
    call = call_text(bench, locals())
    check_options(bench, options)
    with ExitStack() as stack:
        # A meter that supplies the board is there before the board is.
        recorder = stack.enter_context(opened_meter(energy)) if isinstance(energy, str) else energy
        how: dict[str, Any] = {"runs": runs, "warmup": warmup, "seed": seed, "recorder": recorder}
        if module is not None:
            _require_no_others(board=board, name=name, example=example, **options)
            given = first_sample(sample, module.inputs, quantize=quantize)
            library = None if check is False else _library_of(model, module)
            oracle = _checking(library, module, check, source, allow_fallback)
            report = measure(model, module, sample=given, **how)
            compared = given or random_sample(module.inputs, seed, 0)
            report = _with_check(report, model, module, compared, seed, oracle)
            report = replace(report, recoveries=recoveries_of(model[module.name]))
            return _with_cycles(report, model, module, given, seed) if cycles else report
        job = stack.enter_context(
            prepared(
                model,
                board,
                options,
                name=name,
                example=example,
                check=_check_estimable if cycles else check_countable,
            )
        )
        given = first_sample(sample, job.inputs, quantize=quantize)
        given = given or random_sample(job.inputs, seed, 0)
        oracle = _checking(job.library, job.module, check, source, allow_fallback)
        opened = stack.enter_context(job.opened())
        if not isinstance(opened, Model):
            raise InputError(
                f"{job.name!r} does not run on a board, so nothing is counted", "give a board"
            )
        run = partial(measure, opened.device, opened.module, sample=given, **how)
        report = opened.device.repeated(run)
        report = _with_check(report, opened.device, opened.module, given, seed, oracle)
        if cycles:
            workspace = options.get("workspace", "own")
            report = _with_cycles(report, opened.device, opened.module, given, seed, workspace)
        made_from = _made_from(job, opened, [given], call)
        return replace(report, provenance=made_from, recoveries=recoveries_of(opened))


def _library_of(device: Device, module: Module) -> ModelLibrary | None:
    return next((library for library in device.libraries if module in library.modules), None)


def _checking(
    library: ModelLibrary | None,
    module: Module | None,
    check: bool | Oracle,
    source: str | Path | None,
    allow_fallback: bool | None,
) -> Oracle | None:
    """Return the reference of the outputs of a measurement; None if they are not compared."""
    if isinstance(check, Oracle):
        return check
    if not check:
        if source is not None:
            raise InputError("source is given, and the outputs are not compared", "drop source")
        return None
    if library is None or module is None:
        raise InputError(
            "the library of the model is not known here, so its outputs cannot be compared",
            "give check=hil.oracle.reference_of(library, module), or check=False",
        )
    return reference_of(library, module, source=source, allow_fallback=allow_fallback)


def _with_check(
    report: BenchReport,
    device: Device,
    module: Module,
    sample: Sample,
    seed: int,
    oracle: Oracle | None,
) -> BenchReport:
    """Return the report with the comparison of the outputs of inferences that are not counted."""
    if oracle is None:
        return report
    # The sample of the measurement first.
    samples = [sample, *StandardSamples(module.inputs, seed, CHECK_SAMPLES - 1)]
    compared = compare(
        device[module.name],
        TimeBoxed(samples, least=1, seconds=CHECK_S),
        oracle,
        board=report.board,
        repeated=device.repeated,
    )
    return replace(report, checked=compared)


def _require_no_others(**given: Any) -> None:
    """Raise for arguments that are none of a module of an open device."""
    if extra := [name for name, value in given.items() if value is not None]:
        words = listed(extra, "and")
        raise InputError(
            f"{words} given for a module of an open device",
            f"drop {words}: the firmware runs already",
        )


def _check_estimable(board: Board) -> None:
    check_countable(board)
    check_estimable(board)


def _with_cycles(
    report: BenchReport,
    device: Device,
    module: Module,
    sample: Sample | None,
    seed: int,
    workspace: str = "own",
) -> BenchReport:
    """Return the report with the estimated cycles of a run of its own."""
    assert device.firmware is not None, "what was measured has a firmware"
    estimate = estimate_cycles(
        device.firmware.board,
        device.libraries,
        module,
        seed=seed,
        workspace=workspace,
        sample=sample,
    )
    return replace(report, estimate=estimate)


@typed
def evaluate(
    model: Any,
    data: Any,
    labels: Any = None,
    *,
    board: str | Path | Board | Device | None = None,
    metric: str | Sequence[str] = "accuracy",
    at_least: float | Mapping[str, float] | None = None,
    at_most: float | Mapping[str, float] | None = None,
    classes: Sequence[str] | None = None,
    scaling: Scaling | None = None,
    score: ScoreKind = "outputs",
    samples: int | None = None,
    seed: int = 0,
    reference: str | Oracle | None = None,
    source: str | Path | None = None,
    journal: str | Path | None = None,
    restart: bool = False,
    name: str | None = None,
    example: Any = None,
    progress: Callable[[int, int], None] = lambda done, count: None,
    allow_fallback: bool | None = None,
    **options: Unpack[DeviceKeywords],
) -> Evaluation:
    """Run a labelled data set on a board; return its metrics there beside the reference's.

    ``model``, ``board``, ``name``, ``example``, ``reference``, ``source``, ``allow_fallback`` and
    ``options`` are those of :func:`hil.verify`. ``data`` is an NPZ or CSV file, a folder with a
    subfolder for each class, or an array or arrays by the inputs' names with the samples along
    their first axis; ``labels`` are the labels of arrays, or say where a file has them
    (:func:`hil.verify.datasets.load_data`).
    ``samples`` of them are drawn at random from ``seed``; all without it.

    ``metric`` is one or several of ``accuracy``, ``topK``, ``auc``, ``f1``, ``mae``, ``rmse``, over
    the model's first output; with ``score="reconstruction"`` over how far it is from the input.
    ``at_least`` and ``at_most`` are limits, of the first metric or by name. A missed limit and a
    sample that differs raise nothing here, but :meth:`Evaluation.check` does.

    With ``journal`` every result is kept in this file, and an interrupted evaluation continues
    from it, on the same board with the same firmware; ``restart`` starts again. It is removed at
    the end. ``progress`` is called with the number of samples done.
    """
    call = call_text(evaluate, locals())
    check_options(evaluate, options)
    names = [metric] if isinstance(metric, str) else list(metric)
    limits = [*_limits(at_least, names, "min"), *_limits(at_most, names, "max")]
    metrics = checked_metrics(names, limits)
    definition = definition_of(reference) if isinstance(reference, str) else None
    with prepared(
        model, board, options, name=name, example=example, compared_with=definition
    ) as job:
        given = _data(job, data, labels, classes, scaling, metrics)
        if samples is not None:
            given = given.drawn(samples, seed)
        oracle = _oracle(job, reference, None, given.samples, source, allow_fallback)
        key = {
            "model": digest_of_library(job.library) if job.library else job.name,
            "board": job.board,
            "reference": oracle.name,
        }
        with job.opened() as opened:
            if isinstance(opened, Model):
                key |= {"source": opened.device.source, "build_id": opened.device.hello.build_id}
            report = evaluate_model(
                opened,
                given,
                oracle,
                metrics,
                board=job.board,
                key=key,
                score=score,
                limits=limits,
                journal=None if journal is None else Path(journal),
                restart=restart,
                progress=lambda done: progress(done, len(given)),
                repeated=repeated_by(opened),
            )
            transport = opened.device.transport if isinstance(opened, Model) else ""
            made_from = _made_from(job, opened, _Labelled(given), call)
            recoveries = recoveries_of(opened)
    return replace(report, transport=transport, provenance=made_from, recoveries=recoveries)


class _Labelled(Sequence[Sample]):
    """Samples with their labels, under a name that no tensor has."""

    def __init__(self, data: DataSet) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: Any) -> Any:
        return {**self._data.samples[index], "": self._data.labels[index]}


def _limits(
    given: float | Mapping[str, float] | None, names: Sequence[str], kind: Literal["min", "max"]
) -> list[MetricLimit]:
    if given is None:
        return []
    by_name = given if isinstance(given, Mapping) else {names[0]: given}
    return [MetricLimit(name, float(value), kind) for name, value in by_name.items()]


def _data(
    job: Prepared,
    data: Any,
    labels: Any,
    classes: Sequence[str] | None,
    scaling: Scaling | None,
    metrics: Sequence[Metric],
) -> DataSet:
    if isinstance(data, DataSet):
        return data
    assert job.module is not None or job.inputs, "a model has inputs"
    values = math.prod(_first_output(job).shape) if metrics[0].labels == "values" else 0
    if isinstance(data, str | Path):
        if isinstance(labels, Path):
            labels = str(labels)
        if labels is not None and not isinstance(labels, str):
            raise InputError(
                f"labels of type {type(labels).__name__} are given for the file {data}",
                "give the name of the file's array or column",
            )
        return load_data(
            data, job.inputs, labels=labels, classes=classes, scaling=scaling, values=values
        )
    if labels is None:
        raise InputError("arrays are given without labels", "give labels=array")
    arrays = data if isinstance(data, Mapping) else {job.inputs[0].name: data}
    return array_data(
        {name: np.asarray(array) for name, array in arrays.items()},
        np.asarray(labels),
        job.inputs,
        classes=classes,
        scaling=scaling,
        values=values,
    )


def _first_output(job: Prepared) -> TensorInfo:
    if job.module is None:
        raise InputError(
            f"nothing is known of the outputs of {job.name!r}, a model of another kind",
            "give a model of hil or hilc",
        )
    return job.module.outputs[0]
