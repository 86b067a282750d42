"""``hil evaluate``: a model's accuracy over a labelled data set, on a board."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import prod
from pathlib import Path

from hil.cli.arguments import allowed_fallback
from hil.cli.console import Console, answer_text, screen_width, shown_name, table, table_width
from hil.cli.outcomes import split_sources
from hil.cli.recording import history_of, record
from hil.cli.render import recovery_lines
from hil.cli.running import ConsoleRun, job_options
from hil.device import Model
from hil.jobs.evaluate import EvaluateJob
from hil.results.answer import Answer
from hil.support.cache import cache_folder, writable_folder
from hil.verify.comparison import NOT_INDEPENDENT
from hil.verify.datasets import DataSet, Scaling, load_data
from hil.verify.evaluation import Evaluation, MetricReport
from hil.verify.provenance import command_text
from hilc.artifact.library import Module
from hilc.errors import InputError
from hilc.support.inputs import check_regular
from hilc.support.jsondata import shown_argument
from hilc.support.outputs import check_file, write_file

#: Rows of the tables of mismatches and of the confusion matrix.
_SHOWN_MISMATCHES, _SHOWN_CLASSES = 5, 20
_INTERVAL = "95 % interval"


def evaluate_command(args: argparse.Namespace, console: Console) -> int:
    """Evaluate one model; the exit code is 1 if a limit is missed or a sample differs.

    Raise :class:`InputError` unless there is exactly one model.
    """
    if args.output:
        check_file(
            args.output, ".json", kind="an evaluation", is_own=_is_evaluation, force=args.force
        )
    history = history_of(args)
    (report,) = evaluate_job(args).run(ConsoleRun(console))
    entry = report.entry()
    code = 0 if entry.is_good else 1
    # First, since the journal is gone: a full disk must not take the result as well.
    # Also where the reader of the output goes away.
    try:
        console.result(entry, evaluation_text(report), code)
    finally:
        if args.output:
            write_file(args.output, answer_text(Answer("evaluate", code, [entry])) + "\n")
        record(history, "evaluate", [entry], console)
    return code


def evaluate_job(args: argparse.Namespace) -> EvaluateJob:
    """Return the job that the arguments state."""
    metrics = args.metric or ["accuracy"]
    limits = [_limits(words, metrics) for words in (args.min_limits, args.max_limits)]
    source = split_sources(args)
    return EvaluateJob(
        args.models,
        args.data,
        args.labels,
        board=args.board,
        metric=metrics,
        at_least=limits[0],
        at_most=limits[1],
        classes=_classes(args.classes),
        scaling=Scaling(args.mean, args.std, args.integers),
        score=args.score,
        output=args.output_tensor,
        samples=args.samples,
        seed=args.seed,
        reference=args.reference or None,
        source=source,
        journal=partial(_journal, args),
        restart=args.restart,
        jobs=args.jobs,
        allow_fallback=allowed_fallback(args),
        name=args.name,
        options=job_options(args),
        command=command_text(["hil", *args.words]),
    )


def load_data_set(args: argparse.Namespace, module: Module, has_values: bool) -> DataSet:
    """Return the data set that the arguments name."""
    output = module.outputs[0]
    values = prod(output.shape) if has_values else 0
    data = load_data(
        args.data,
        module.inputs,
        labels=args.labels,
        classes=_classes(args.classes),
        scaling=Scaling(args.mean, args.std, args.integers),
        values=values,
    )
    return data.drawn(args.samples, args.seed) if args.samples else data


def _classes(text: str | None) -> Sequence[str] | None:
    if text is None:
        return None
    words = text.split(",")
    if "," not in text and text.strip():
        if not Path(text).exists():
            raise InputError(
                f"--classes {text!r} is one name, and no file",
                "write cat,dog, or the path of a file with the name of a class in each line",
            )
        words = _lines(Path(text))
    names = [word.strip() for word in words if word.strip()]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--classes names {name!r} twice", "name each class once")
    if not names:
        raise InputError(f"--classes {text!r} names no class", "write cat,dog")
    return names


def _lines(path: Path) -> list[str]:
    remedy = "give a file in UTF-8 with the name of a class in each line"
    check_regular(path, remedy)
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the classes in {path} cannot be read: {error}", remedy) from None


def _limits(words: Sequence[str], metrics: Sequence[str]) -> dict[str, float]:
    limits: dict[str, float] = {}
    for word in words:
        name, separator, value = word.rpartition("=")
        metric = name if separator else metrics[0]
        if metric in limits:
            raise InputError(f"two limits of {metric} are given: {word!r} too", "give one")
        try:
            limits[metric] = float(value)
        except ValueError:
            raise InputError(
                f"{word!r} is not a limit of a metric", "write 0.9 or accuracy=0.9"
            ) from None
    return limits


def _journal(args: argparse.Namespace, board: str, model: Model) -> Path:
    """Return the journal's path: next to the output, or in the cache by model, data and board."""
    if args.output:
        return Path(f"{args.output}.journal")
    device = model.device
    what = (model.name, str(Path(args.data).resolve()), args.samples, args.seed)
    words = (*what, board, device.source, device.hello.build_id)
    key = hashlib.sha256(shown_argument("\n".join(map(str, words))).encode()).hexdigest()[:32]
    folder = cache_folder() / "evaluations"
    with suppress(OSError):  # whoever writes there tells it
        writable_folder("evaluations")
    return folder / f"{key}.journal"


def _is_evaluation(path: Path) -> bool:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(data, dict):
        return False
    # The keys are those of version 0.1, which had no envelope.
    is_old = {"metrics", "reference", "mismatches"} <= data.keys()
    return is_old or data.get("command") == "evaluate"


def evaluation_text(report: Evaluation) -> str:
    """Return the metrics, the confusion matrix and the first mismatches as text."""
    resumed = f", {report.resumed:,} of them before" if report.resumed else ""
    shared = f" by {report.jobs} boards" if report.jobs > 1 else ""
    own = "" if report.independent else f", compared with {NOT_INDEPENDENT}"
    lines = [
        f"{report.model} on {report.board}{own}: {report.samples:,} samples{resumed} in "
        f"{report.seconds:.1f} s{shared}, {report.rate:.1f} samples/s through {report.transport}",
        f"reference {report.reference_description}",
        table(
            [row for metric in report.metrics for row in _metric_rows(metric, report.reference)],
            ["metric", "of", "value", _INTERVAL, "method", "limit"],
            screen_width(),
            whole=[_INTERVAL],
        ),
    ]
    if report.nonfinite:
        lines.append(
            f"{report.nonfinite:,} of {report.samples:,} samples have NaN or infinite outputs, of "
            f"{report.reference} {report.nonfinite_reference:,}: they count as wrong"
        )
    if report.mismatches:
        lines.append(
            f"{report.mismatches:,} of {report.samples:,} samples differ from {report.reference}:"
        )
        lines.append(
            table(
                [
                    [m.sample, m.source, m.device_class, m.reference_class, f"{m.max_abs_diff:g}"]
                    for m in report.first_mismatches[:_SHOWN_MISMATCHES]
                ],
                ["sample", "from", "device", report.reference, "max diff"],
                screen_width(),
            )
        )
    else:
        lines.append(f"every output is that of {report.reference}")
    if report.uncompared_outputs:
        others = ", ".join(map(shown_name, report.uncompared_outputs))
        lines.append(
            f"only the output {shown_name(report.output)} is evaluated and compared, not {others}"
        )
    if report.confusion is not None and len(report.confusion) <= _SHOWN_CLASSES:
        names = [shown_name(name) for name in report.class_names]
        lines.append(_confusion_table(names, report.confusion.tolist()))
    lines += recovery_lines(report.recoveries)
    return "\n\n".join(lines)


def _confusion_table(names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """Return the confusion matrix; its columns have numbers where names would be too wide."""
    corner = "label, device's class:"
    text = table([[name, *row] for name, row in zip(names, counts, strict=True)], [corner, *names])
    if table_width(text) <= screen_width():
        return text
    numbered = [f"{name} ({i})" for i, name in enumerate(names)]
    rows = [[name, *row] for name, row in zip(numbered, counts, strict=True)]
    return table(rows, [corner, *map(str, range(len(names)))], screen_width())


def _metric_rows(metric: MetricReport, reference: str) -> Iterator[list[str]]:
    """Yield the rows of the device and of the reference."""
    limit = _limit(metric.minimum, metric.maximum, metric.is_met)
    scores = (("device", metric.device, limit), (reference, metric.reference, ""))
    for at, (of, score, limited) in enumerate(scores):
        interval = f"{score.low:.4f} to {score.high:.4f}"
        name = "" if at else metric.name
        yield [name, of, f"{score.value:.4f}", interval, score.method, limited]


def _limit(minimum: float | None, maximum: float | None, is_met: bool) -> str:
    words = [f"at least {minimum:g}"] if minimum is not None else []
    words += [f"at most {maximum:g}"] if maximum is not None else []
    return f"{' and '.join(words)}: {'met' if is_met else 'MISSED'}" if words else ""
