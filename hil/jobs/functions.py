"""Verify, measure and evaluate a model: ``hil.verify``, ``hil.bench``, ``hil.evaluate``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy.typing as npt

from hil.board import Board
from hil.device import Device
from hil.device.session import DeviceKeywords
from hil.energy import Recorder
from hil.errors import InputError
from hil.jobs.bench import BenchJob
from hil.jobs.evaluate import EvaluateJob
from hil.jobs.job import Job
from hil.jobs.verify import VerifyJob
from hil.verify.bench import BenchReport
from hil.verify.comparison import Oracle, Report
from hil.verify.datasets import Scaling
from hil.verify.evaluation import Evaluation, ScoreKind
from hil.verify.provenance import call_text
from hilc.artifact.library import Module
from hilc.options import RENAMED
from hilc.support.arguments import typed
from hilc.support.option import check_keywords
from hilc.support.suggest import listed

if TYPE_CHECKING:
    from typing_extensions import Unpack

J = TypeVar("J", bound=Job[Any])


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
    return _job(VerifyJob, verify, locals()).run_one()


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
    memory_models: int | None = None,
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

    With ``memory_models``, on a simulated core, the count is taken also with flash of no wait
    states, of so many, and of so many with prefetch (``report.simulated``).

    Then the outputs of another inference, which is not counted, are compared with the reference
    (``report.checked``); a difference raises nothing here, but :meth:`BenchReport.check` does.
    ``check`` may be a reference that :mod:`hil.oracle` returned; with False nothing is compared.
    ``source`` and ``allow_fallback`` are those of :func:`hil.verify`.

    ``bench(device, module)`` measures a module of an open device.
    """
    given = locals()
    if module is not None:
        _require_no_others(board=board, name=name, example=example, **options)
        given = {**given, "model": model[module.name]}
    return _job(BenchJob, bench, given).run_one()


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
    output: str | None = None,
    samples: int | None = None,
    seed: int = 0,
    reference: str | Oracle | None = None,
    source: str | Path | None = None,
    journal: str | Path | None = None,
    restart: bool = False,
    jobs: int = 1,
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
    the ``output`` of this name, the first one without it; with ``score="reconstruction"`` over how
    far it is from the input. An output of one integer without a scale is the number of a class.
    ``at_least`` and ``at_most`` are limits, of the first metric or by name. A missed limit and a
    sample that differs raise nothing here, but :meth:`Evaluation.check` does.

    With ``journal`` every result is kept in this file, and an interrupted evaluation continues
    from it, on the same board with the same firmware; ``restart`` starts again. It is removed at
    the end. ``progress`` is called with the number of samples done. ``jobs`` boards share the
    samples: so many emulators, or boards of the bench or of a lab that ``board`` selects by
    properties.
    """
    return _job(EvaluateJob, evaluate, locals()).run_one()


def _job(kind: type[J], function: Callable[..., Any], given: Mapping[str, Any]) -> J:
    """Return the job of a call of ``function`` with the arguments ``given``.

    Raise :class:`InputError` for the first option that it does not take.
    """
    own = [
        name
        for name, each in inspect.signature(function).parameters.items()
        if each.kind is not each.VAR_KEYWORD
    ]
    known = [*own, *DeviceKeywords.__annotations__]
    check_keywords(f"hil.{function.__name__}", given["options"], known, RENAMED)
    taken = {name: value for name, value in given.items() if name != "module"}
    return kind(**taken, command=call_text(function, given))


def _require_no_others(**given: Any) -> None:
    """Raise for arguments that are none of a module of an open device."""
    if extra := [name for name, value in given.items() if value is not None]:
        words = listed(extra, "and")
        raise InputError(
            f"{words} given for a module of an open device",
            f"drop {words}: the firmware runs already",
        )
