"""The whole command line: each command, its options, and the function that runs it.

Only imports that `hil --help` needs stand here; a command's module, which loads the compiler, is
imported when the command runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Literal

from hil.cli.commands.code_options import add_code_options
from hil.cli.commands.completing import boards, completed_by, cores, exports
from hil.cli.commands.parser import (
    Parser,
    Version,
    byte_count,
    limit,
    natural_int,
    number_list,
    positive_float,
    positive_int,
)
from hil.plugins import optional_module

_SECTIONS = {
    "models": ("quantize", "compile", "explain", "build", "export"),
    "models on boards": (
        "run",
        "verify",
        "evaluate",
        "bench",
        "tune",
        "mlperf",
        "flash",
        "debug",
        "monitor",
    ),
    "results": ("report", "history", "compare", "gate"),
    "boards": ("boards", "board", "erase", "reset", "lab"),
    "this program": ("doctor", "help", "completion", "tvmc"),
}
#: Models among what ``--source`` names.
_LIBRARY_MODEL = "or the model file of the library, if its archive does not contain it"
_SHELL = "bash, zsh or fish; load it where the shell starts (~/.bashrc, config.fish)"
#: A parser or a group of options, with a title in the help.
_Group = argparse._ArgumentGroup


def build_parser(words: Sequence[str] | None = None) -> Parser:
    """Return the parser of the whole command line, or of the part that ``words`` need.

    The flags of tvmc come from the compiler, which takes a while to load.
    """
    parser = Parser(
        prog="hil",
        description="Compile trained models for microcontrollers and prove the result on a board.",
        epilog="`hil COMMAND --help` describes a command. Exit: 0 good, 1 outputs differ, "
        "2 bad input or usage, 3 build failed, 4 board or link failed, 130 interrupted.",
    )
    parser.add_argument("--version", action=Version, nargs=0, help="show the version and exit")
    parser.set_defaults(json=False, quiet=False, verbose=0, uses_plugins=True)
    parser.sections = _SECTIONS
    commands = parser.add_commands()
    _add_model_commands(commands)
    _add_measuring_commands(commands)
    _add_result_commands(commands)
    _add_probe_commands(commands)
    _add_board_commands(commands)
    _add_lab_commands(commands)
    summary = "Describe this program, or one of its commands."
    help_ = commands.add_parser("help", help=summary, description=summary)
    help_.add_argument("help_of", nargs="*", metavar="COMMAND", help="such as: verify, lab serve")
    help_.add_output_options()
    help_.set_defaults(parser=help_)
    completion = _command(
        commands,
        "completion",
        "completing",
        "Print the script that completes `hil` in a shell: source <(hil completion bash)",
    )
    completion.set_defaults(uses_plugins=False)
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help=_SHELL)
    completion.add_output_options()
    _add_tvmc(commands, words)
    return parser


def _add_tvmc(commands: Any, words: Sequence[str] | None) -> None:
    module = optional_module("hil.compat.tvm.tvmc_parser")
    if module is not None:
        module.add_tvmc(commands, flags=words is None or "tvmc" in words)
        return
    absent = _command(commands, "tvmc", "absent", "tvmc's commands; not part of this installation.")
    absent.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    absent.add_output_options()


def _command(commands: Any, name: str, module: str, summary: str) -> Parser:
    """Return a command; function ``NAME_command`` of ``hil.cli.commands.MODULE`` runs it."""
    sub: Parser = commands.add_parser(name, help=summary, description=summary)
    sub.set_defaults(handler=(f"hil.cli.commands.{module}", f"{name}_command"), parser=sub)
    return sub


# -- models ------------------------------------------------------------------------------------


def _add_quantize(commands: Any) -> None:
    quantize = _command(
        commands,
        "quantize",
        "quantizing",
        "Quantize an ONNX or PyTorch model in floats, and report what is lost.",
    )
    quantize.add_argument(
        "model", metavar="MODEL", help="an .onnx or .pt2 file in floats; NAME=path names it"
    )
    quantize.add_argument(
        "--samples",
        required=True,
        metavar="F.npz",
        help="calibration samples: one array per input, by name, the first axis counts them; or an "
        ".npy file for the only input",
    )
    quantize.add_argument(
        "-o", "--output", required=True, metavar="OUT", help="an .onnx file, or .pt2 of a .pt2"
    )
    _add_force(quantize)
    quantize.add_argument("--name", metavar="N", help="the model's name")
    quantize.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=N,N,...",
        help="the shape of an input that the model leaves open; may be repeated",
    )
    group = quantize.add_argument_group("quantizer")
    group.add_argument(
        "--calibrator",
        choices=("minmax", "entropy", "percentile", "mse"),
        default="minmax",
        help="how ranges of activations are found (default: minmax, all values); entropy for ONNX, "
        "mse for PyTorch",
    )
    group.add_argument(
        "--percentile",
        type=positive_float,
        metavar="P",
        help="of the calibrator percentile: the share of values within the range (default: 99.999)",
    )
    group.add_argument(
        "--activations",
        choices=("int8", "uint8", "int16"),
        default="int8",
        help="type of activations (default: int8); int16 takes more memory and instructions, and "
        "has less noise",
    )
    group.add_argument(
        "--per-tensor",
        action="store_true",
        help="one scale for all weights of a layer (default: one for each output channel)",
    )
    group.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="NODE",
        help="leave this node, or module of PyTorch, in floats; may be repeated",
    )
    group.add_argument(
        "--keep-state",
        action="store_true",
        help="the samples are one sequence: reset states before the first sample only",
    )
    report = quantize.add_argument_group("report")
    report.add_argument(
        "--test",
        metavar="F.npz",
        help="samples that the models are compared over (default: those of --samples)",
    )
    report.add_argument(
        "--labels", metavar="F.npy", help="the class of each of these samples, for the accuracy"
    )
    report.add_argument("--per-layer", action="store_true", help="show every tensor")
    quantize.add_output_options()


def _add_export(commands: Any) -> None:
    export = _command(
        commands,
        "export",
        "exporting",
        "Write models as a library of another build system, with an example.",
    )
    _add_models(export, several="several models become one library")
    completed_by(
        export.add_argument(
            "--format",
            dest="export_format",
            required=True,
            metavar="NAME",
            help="cmake, zephyr, arduino, cmsis-pack, platformio, esp-idf, or a plugin's",
        ),
        exports,
    )
    export.add_argument("-o", "--output", required=True, metavar="DIR", help="the library's folder")
    _add_force(export)
    target = export.add_mutually_exclusive_group()
    completed_by(
        target.add_argument("--board", metavar="B", help="compile for this board's core"), boards
    )
    _add_cpu(target, "compile for this core (default: code for any core)")
    group = export.add_argument_group("library", "What the library's manifest says of it.")
    group.add_argument("--library", metavar="N", help="its name (default: the models' names)")
    group.add_argument(
        "--library-version", default="1.0.0", metavar="V", help="its version (default: 1.0.0)"
    )
    group.add_argument("--vendor", default="hil", metavar="N", help="of a pack (default: hil)")
    group.add_argument(
        "--author", default="hil", metavar="NAME", help="author and maintainer (default: hil)"
    )
    group.add_argument("--url", default="", metavar="URL", help="where the library is at home")
    group.add_argument(
        "--license",
        metavar="SPDX",
        help="license of the model's weights; that of the code is Apache-2.0",
    )
    _add_compile_options(export)
    export.add_output_options()


def _add_model_commands(commands: Any) -> None:
    _add_quantize(commands)
    compile_ = _command(
        commands, "compile", "compiling", "Compile models to C in a Model Library Format file."
    )
    _add_models(compile_)
    compile_.add_argument(
        "-o", "--output", required=True, metavar="OUT[.tar]", help="tar or folder"
    )
    _add_force(compile_)
    target = compile_.add_mutually_exclusive_group()
    completed_by(
        target.add_argument("--board", metavar="B", help="compile for this board's core"), boards
    )
    _add_cpu(target, "compile for this core (default: host)")
    _add_compile_options(compile_)
    compile_.add_output_options()

    explain = _command(
        commands, "explain", "explaining", "Print a model's memory plan, or draw it."
    )
    _add_models(explain)
    explain.add_argument(
        "-o", "--output", metavar="FILE", help="write a picture (.svg, .png or .pdf)"
    )
    _add_force(explain)
    _add_board(explain)
    _add_compile_options(explain)
    explain.add_output_options()

    build = _command(
        commands,
        "build",
        "building",
        "Build a firmware project and its ELF; report the sizes.",
    )
    _add_models(build)
    build.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="the project's folder; with several boards, the parent of one folder per board",
    )
    _add_force(build)
    _add_format(build)
    build.add_argument("--sizes", action="store_true", help="show each section and its owner")
    _add_mlperf_options(build, "--mlperf", None)
    _add_board(build, several=True)
    add_code_options(build)
    _add_compile_options(build)
    build.add_output_options()

    _add_export(commands)


# -- models on boards --------------------------------------------------------------------------


def _add_measuring_commands(commands: Any) -> None:
    run = _command(commands, "run", "running", "Run one inference.")
    _add_models(run)
    run.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=F.npy",
        help="the values of an input; other inputs are random, from --seed",
    )
    _add_quantize_inputs(run)
    run.add_argument("-o", "--output", metavar="OUT.npz", help="write the outputs here")
    _add_force(run)
    _add_seed(run)
    _add_device_options(run, takes_inputs=True)

    verify = _command(commands, "verify", "running", "Compare a model on a board with a reference.")
    _add_models(verify)
    verify.add_argument(
        "--samples", type=positive_int, metavar="N", help=f"number of samples (default: {_SAMPLES})"
    )
    _add_seed(verify)
    verify.add_argument("--inputs", metavar="F.npz", help="samples: one array per input, by name")
    _add_quantize_inputs(verify)
    verify.add_argument("--expect", metavar="F.npz", help="expected outputs, for --inputs")
    verify.add_argument(
        "--reference",
        metavar="NAME",
        help="tflm, litert-ref, litert, onnx, qdq or hilc (default: tflm for TFLite models that it "
        "runs, qdq for quantized ones of ONNX and PyTorch, onnx for others of these); a model file "
        "is compiled with the reference's arithmetic",
    )
    _add_allow_fallback(verify)
    _add_format(verify)
    _add_recording(verify)
    verify.add_argument(
        "--against",
        metavar="PORT",
        help="in place of --board: compare the layers that other firmware taps (hil_tap.h) at this "
        "serial port or pyserial URL, or at the port of this real board; --samples inferences "
        "(default: 10 to 100, as many as arrive in about 5 s)",
    )
    verify.add_argument(
        "--baud",
        type=positive_int,
        metavar="N",
        help="of --against's serial port (default: 115200)",
    )
    verify.add_argument(
        "--checksums",
        action="store_true",
        help="with --against: let the firmware send checksums of layers, then the bytes of the "
        "first that differs",
    )
    verify.add_argument(
        "--per-layer", action="store_true", help="compare the outputs of every layer, too"
    )
    verify.add_argument(
        "--metrics",
        action="store_true",
        help="say how far the results are from the reference: RMSE, MAE, L2r, NSE, cosine, SNR, "
        "top-1; with --per-layer of every layer",
    )
    verify.add_argument(
        "--float-model",
        metavar="F",
        help="say the same of the model in floats that this one was quantized from",
    )
    verify.add_argument(
        "--keep-state",
        action="store_true",
        help="run the samples as one sequence: reset states before the first sample only",
    )
    _add_device_options(
        verify,
        several=True,
        required=False,
        source=_LIBRARY_MODEL,
        compares=True,
    )

    _add_evaluate(commands)
    _add_mlperf(commands)

    bench = _command(
        commands, "bench", "running", "Count instructions or cycles; report sizes and memory."
    )
    _add_models(bench)
    _add_format(bench)
    _add_recording(bench)
    bench.add_argument("--per-layer", action="store_true", help="show each layer")
    bench.add_argument(
        "--limit",
        action="store_true",
        help="show each layer with the instructions that the core cannot go below, and the ratio",
    )
    _add_measuring_options(bench)
    _add_device_options(bench, several=True, source=_LIBRARY_MODEL)

    tune = _command(
        commands,
        "tune",
        "tuning",
        "Measure all kernels of a model's layers, then whole programs; write a log for --tuning.",
    )
    _add_models(tune)
    tune.add_argument(
        "-o", "--output", metavar="F.json", help="the log (default: MODEL.tuning.json)"
    )
    tune.add_argument(
        "--programs",
        type=natural_int,
        default=4,
        metavar="N",
        help="whole programs to measure for each goal, or the one of --optimize, at most "
        "(default: 4; 0: single layers only)",
    )
    _add_check(tune)
    _add_force(tune)
    _add_seed(tune)
    _add_device_options(tune)

    monitor = _command(commands, "monitor", "looking", "Show a board's logs, faults and console.")
    monitor.add_argument("models", nargs="*", metavar="MODEL", help="as for build")
    monitor.add_argument("--seconds", type=positive_float, metavar="S", help="stop after S seconds")
    _add_device_options(monitor, required=False, lab=False)


#: How many samples ``verify`` takes without ``--samples``.
_SAMPLES = (
    "all of --inputs; else extremes, then random ones, 10 to 100, as many as fit in about 5 s"
)


def _add_allow_fallback(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--allow-fallback",
        action="store_true",
        help="compare with this compiler's own interpreter if the default reference cannot run, "
        "also in CI, in pytest and for hil gate, where that is an error",
    )


def _add_check(parser: argparse._ActionsContainer) -> None:
    """Add the options of commands that compare the outputs of what they measure."""
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="do not compare the outputs of one inference with the reference",
    )
    _add_allow_fallback(parser)


def _add_measuring_options(
    parser: Parser, inputs: str = "measure the first sample of a file: one array per input"
) -> None:
    """Add the options of ``bench``, which the commands that measure for themselves share."""
    group = parser.add_argument_group("measurement")
    group.add_argument(
        "--runs", type=positive_int, default=1, metavar="N", help="measured inferences (default: 1)"
    )
    group.add_argument(
        "--warmup",
        type=natural_int,
        default=1,
        metavar="N",
        help="inferences before them, which fill caches and are not counted (default: 1)",
    )
    group.add_argument(
        "--cycles",
        action="store_true",
        help="count executed instructions by kind, and estimate the cycles of the core by Arm's "
        "table (Cortex-M0, M0+, M3, M4)",
    )
    group.add_argument(
        "--energy",
        metavar="METER[:ARGUMENT]",
        help="record the energy of as many inferences: trace:FILE.csv, joulescope[:KEY=VALUE,...], "
        "ppk2:KEY=VALUE,..., or a plugin's",
    )
    _add_check(group)
    _add_seed(group)
    group.add_argument("--inputs", metavar="F.npz", help=inputs)
    _add_quantize_inputs(group)


# -- results -----------------------------------------------------------------------------------


def _add_result_commands(commands: Any) -> None:
    _add_report(commands)
    history = _command(commands, "history", "results", "List recorded results, the newest last.")
    _add_history(history)
    history.add_argument(
        "--kind", choices=("verify", "bench", "evaluate"), help="only of this command"
    )
    history.add_argument("--model", dest="of_model", metavar="NAME", help="only of this model")
    history.add_argument("--board", dest="of_board", metavar="NAME", help="only on this board")
    history.add_argument(
        "--commit", metavar="C", help="only of this commit: its beginning, or a name that git knows"
    )
    history.add_argument(
        "--last", type=positive_int, metavar="N", help="only so many of the newest"
    )
    history.add_output_options()

    _add_compare(commands)
    _add_gate(commands)


_MEASUREMENTS = (
    "a .json file of `hil bench --json`, an id of `hil history`, a commit whose newest "
    "measurements are in the history, or a model to be measured on --board"
)


def _add_compare(commands: Any) -> None:
    compare = _command(
        commands, "compare", "comparing", "Show two measurements side by side, layer by layer."
    )
    compare.add_argument("a", metavar="A", help=_MEASUREMENTS)
    compare.add_argument("b", metavar="B", help="the same")
    _add_recording(compare)
    _add_measuring_options(compare)
    _add_device_options(compare, required=False, source=_LIBRARY_MODEL)


def _add_gate(commands: Any) -> None:
    gate = _command(
        commands,
        "gate",
        "comparing",
        "Fail (exit code 1) where a measurement exceeds its baseline by more than the limits.",
    )
    gate.add_argument(
        "current",
        nargs="?",
        metavar="CURRENT",
        help=f"{_MEASUREMENTS} (default: the newest of the baseline's model and board in the "
        "history)",
    )
    gate.add_argument(
        "--baseline",
        required=True,
        metavar="BASELINE",
        help="a .json file of `hil bench --json`, an id of `hil history`, or a commit in it",
    )
    limits = gate.add_argument_group("limits")
    for name, what in (
        ("slower", "instructions or cycles"),
        ("ram", "static RAM of the firmware"),
        ("flash", "flash of the firmware"),
        ("workspace", "workspace of the model"),
        ("stack", "the stack's peak"),
        ("energy", "energy of an inference in uJ"),
    ):
        limits.add_argument(
            f"--max-{name}",
            type=limit,
            metavar="LIMIT",
            help=f"{what}: at most so much more than the baseline, as 2%% of it or as a number",
        )
    gate.add_argument(
        "--allow-other-model",
        action="store_true",
        help="accept a baseline of another model file or of other inputs",
    )
    gate.add_argument(
        "--allow-missing",
        action="store_true",
        help="accept that CURRENT, a file or a commit, lacks some models, boards or goals of the "
        "baseline",
    )
    _add_recording(gate)
    _add_measuring_options(gate)
    _add_device_options(gate, required=False, source=_LIBRARY_MODEL)


def _add_history(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--history",
        metavar="FILE",
        help="the file of recorded results (default: HIL_HISTORY, or `history` in config.toml)",
    )


def _add_recording(parser: Parser) -> None:
    _add_history(parser)
    parser.add_argument(
        "--no-history", action="store_true", help="do not record the result in the history"
    )


def _add_report(commands: Any) -> None:
    report = _command(
        commands,
        "report",
        "reporting",
        "Verify and measure models on boards, or take stored results; write one HTML page.",
    )
    _add_models(report, least=0, several="each of several models is built into its own image")
    report.add_argument("-o", "--output", required=True, metavar="OUT.html", help="the page")
    _add_force(report)
    report.add_argument(
        "--from",
        dest="stored",
        action="append",
        default=[],
        metavar="F.json",
        help="show these results too: what report, verify, bench, build, evaluate or explain wrote "
        "with --json; may be repeated",
    )
    report.add_argument("--results", metavar="F.json", help="store what is measured for --from")
    report.add_argument("--title", metavar="TEXT", help="the page's title")
    report.add_argument(
        "--samples", type=positive_int, metavar="N", help=f"number of samples (default: {_SAMPLES})"
    )
    report.add_argument("--reference", metavar="NAME", help="as for verify")
    report.add_argument(
        "--metrics",
        action="store_true",
        help="show how far each tensor is from the reference: RMSE, MAE, cosine, SNR and others",
    )
    report.add_argument(
        "--float-model",
        metavar="F",
        help="show the same of the model in floats that the only model was quantized from",
    )
    _add_recording(report)
    _add_measuring_options(report, "samples; the first is measured: one array per input, by name")
    _add_device_options(
        report, several=True, required=False, compares=True, boards_are="report_boards"
    )


def _add_data_options(parser: Parser) -> None:
    """Add the options that say what a data set is."""
    group = parser.add_argument_group("data set")
    group.add_argument(
        "--labels",
        metavar="WHERE",
        help="the labels: an array of the NPZ file or an NPY file (default: labels, y and such); "
        "columns of a CSV file, by name or number from 0 (default: the one called so, or the last)",
    )
    group.add_argument(
        "--classes",
        metavar="A,B,...",
        help="names of the classes in the order of the model's outputs, or a file with one a line "
        "(default: sorted, or the numbers that they are)",
    )
    group.add_argument(
        "--samples", type=positive_int, metavar="N", help="draw N samples at random (default: all)"
    )
    _add_seed(parser)
    group.add_argument(
        "--mean",
        type=number_list,
        metavar="M",
        help="take M from every number, or one M,M,M for each channel, and quantize the result",
    )
    group.add_argument(
        "--std", type=number_list, metavar="S", help="then divide it by S, such as 255 for pictures"
    )
    group.add_argument(
        "--integers", action="store_true", help="the numbers are the model's own integers"
    )


def _add_evaluate(commands: Any) -> None:
    evaluate = _command(
        commands,
        "evaluate",
        "evaluating",
        "Take a model's accuracy over a labelled data set, on a board and of its reference.",
    )
    _add_models(evaluate)
    evaluate.add_argument(
        "--data",
        required=True,
        metavar="DATA",
        help="an NPZ or CSV file, or a folder with one subfolder of NPY files or pictures for each "
        "class",
    )
    evaluate.add_argument(
        "--metric",
        action="append",
        metavar="NAME",
        help="accuracy (default), topK such as top5, auc, f1, mae or rmse; may be repeated",
    )
    for option, what in (("--min", "less"), ("--max", "more")):
        evaluate.add_argument(
            option,
            dest=f"{option[2:]}_limits",
            action="append",
            default=[],
            metavar="[NAME=]VALUE",
            help=f"exit with 1 if the device has {what} than this in a metric (the first one, or "
            "NAME); may be repeated",
        )
    evaluate.add_argument(
        "--score",
        choices=("outputs", "reconstruction"),
        default="outputs",
        help="what is evaluated: the model's first output (default), or of an autoencoder the mean "
        "squared difference between it and the input",
    )
    evaluate.add_argument(
        "-o",
        "--output",
        metavar="F.json",
        help="write the result here; the journal that an interrupted evaluation goes on from is "
        "F.json.journal (default: in the cache)",
    )
    _add_force(evaluate)
    evaluate.add_argument(
        "--restart", action="store_true", help="begin anew where one was interrupted"
    )
    evaluate.add_argument(
        "--reference",
        metavar="NAME",
        help="the reference beside the device, as for hil verify",
    )
    _add_allow_fallback(evaluate)
    _add_recording(evaluate)
    _add_data_options(evaluate)
    _add_device_options(
        evaluate,
        source=_LIBRARY_MODEL,
        compares=True,
    )


def _add_mlperf_options(parser: Parser, option: str, default: str | None) -> None:
    """Add the options of a firmware for MLPerf Tiny."""
    group = parser.add_argument_group("MLPerf Tiny")
    group.add_argument(
        option,
        dest="mlperf",
        default=default,
        metavar="ID",
        help="answer the commands of MLPerf Tiny's runner, as this benchmark: kws01, vww01, ad01, "
        "ic01, ic02, sww01 or strww01; auto: by the model's sizes"
        + (" (default)" if default else ""),
    )
    group.add_argument(
        "--device-name", metavar="NAME", help="the device's name on the line (default: the board's)"
    )
    group.add_argument(
        "--baud",
        type=positive_int,
        metavar="N",
        help="baud rate of the UART (default: 115200, 921600 for ad, 9600 in energy mode)",
    )
    # A monitor and its interface board drive a device in energy mode.
    parser.set_defaults(energy=False)
    if default is None:
        group.add_argument(
            "--energy",
            action="store_true",
            help="for an energy monitor: 9600 baud; a pin marks times (--source pin.c)",
        )


def _add_mlperf(commands: Any) -> None:
    mlperf = _command(
        commands,
        "mlperf",
        "benchmarking",
        "Run MLPerf Tiny's performance and accuracy; write a submission's files.",
    )
    _add_models(mlperf)
    mlperf.add_argument(
        "--data",
        metavar="DATA",
        help="a data set: a folder with y_labels.csv, or as for hil evaluate (default: random "
        "inputs, and no accuracy)",
    )
    mlperf.add_argument(
        "--mode",
        action="append",
        choices=("performance", "accuracy"),
        help="run only this; may be repeated (default: what the data permits)",
    )
    mlperf.add_argument(
        "-o", "--output", metavar="DIR", help="write results/ and systems/ of a submission here"
    )
    _add_force(mlperf)
    mlperf.add_argument(
        "--windows", type=positive_int, default=5, metavar="N", help="windows (default: 5)"
    )
    mlperf.add_argument(
        "--seconds",
        type=positive_float,
        default=10.0,
        metavar="S",
        help="length of a window by the device's clock (default: 10)",
    )
    mlperf.add_argument(
        "--iterations",
        type=positive_int,
        metavar="N",
        help="inferences a window, not by its length",
    )
    mlperf.add_argument(
        "--warmups",
        type=natural_int,
        default=1,
        metavar="N",
        help="inferences before each window (default: 1)",
    )
    _add_check(mlperf)
    _add_mlperf_options(mlperf, "--benchmark", "auto")
    _add_data_options(mlperf)
    _add_device_options(mlperf, source=_LIBRARY_MODEL)


def _add_device_options(
    parser: Parser,
    several: bool = False,
    required: bool = True,
    lab: bool = True,
    source: str = "",
    compares: bool = False,
    takes_inputs: bool = False,
    boards_are: str = "on_boards",
) -> None:
    """Add the options of a command that runs on a board or on a board of a lab.

    A command that ``compares`` defines ``--reference`` itself.
    """
    if lab:
        parser.set_defaults(lab=None)
    board = _add_board(parser, several, required, boards_are)
    board.add_argument(
        "--runner",
        metavar="NAME[:KEY=VALUE]",
        help="what starts the board: an emulator, or the flasher of a real one, with settings in "
        "place of the board file's (default: the board's first; `hil boards B` lists them)",
    )
    _add_probe(board)
    _add_port(
        board,
        "connect to the firmware that runs at this serial port; with --probe or --runner: the "
        "serial port of the board",
    )
    board.add_argument(
        "--bulk",
        action="yes_no",
        default=None,
        help="access tensors in the board's memory, through QEMU or the probe that carries the "
        "serial line; --no-bulk: over the serial line (default: memory if QEMU emulates the "
        "board)",
    )
    add_code_options(parser, source)
    _add_compile_options(parser, compares, takes_inputs, several_goals=several)
    if several:
        _add_matrix_options(parser, is_report=boards_are != "on_boards")
    parser.add_output_options()


def _add_matrix_options(parser: Parser, *, is_report: bool) -> None:
    """Add the options of a command that runs on several boards, with several goals and models.

    A report builds an image for each model anyhow, and is a file of its own.
    """
    group = parser.add_argument_group(
        "matrix",
        "Several boards and goals make a matrix, whose combinations run one by one. The board "
        "`emulated` stands for all that QEMU emulates here.",
    )
    if not is_report:
        group.add_argument(
            "--separate",
            action="store_true",
            help="build an image for each model; of a folder take each model file in it",
        )
    group.add_argument(
        "--jobs",
        type=positive_int,
        default=1,
        metavar="N",
        help="run up to N combinations at a time, where boards allow (default: 1)",
    )
    group.add_argument(
        "--retries",
        type=natural_int,
        default=0,
        metavar="N",
        help="run a combination again, up to N times, if board, probe or link failed (default: 0); "
        "in a lab on another board, if one becomes free",
    )
    group.add_argument(
        "--skip-too-large",
        action="store_true",
        help="skip combinations whose image does not fit the board",
    )
    if is_report:
        return
    group.add_argument("--junit", metavar="F.xml", help="write a JUnit file of the results")
    group.add_argument(
        "--summary", metavar="F.md", help="append a table of the results in Markdown to this file"
    )


def _add_probe_commands(commands: Any) -> None:
    flash = _command(
        commands, "flash", "deploying", "Program a board, verify, reset, and check the firmware."
    )
    debug = _command(
        commands, "debug", "deploying", "Start a gdb server on a board; print the gdb command."
    )
    for sub in (flash, debug):
        _add_models(sub, "or the ELF file of an image")
        board = _add_board(sub)
        _add_probe(board)
        _add_port(board, "the board's serial port, if not the probe's own")
        if sub is flash:
            _add_flasher(board)
            _add_erase_to_unlock(board)
        if sub is debug:
            board.add_argument(
                "--runner",
                metavar="NAME[:KEY=VALUE]",
                help="what serves gdb: an emulator or a flasher (default: the board's first)",
            )
            board.add_argument(
                "--listen",
                metavar="HOST:PORT",
                help="serve gdb on TCP, to whoever reaches that port (default: a socket in a "
                "folder of this user)",
            )
        add_code_options(sub)
        _add_compile_options(sub)
        sub.add_output_options()
    for name, summary in (
        ("erase", "Erase all flash of a board, with its configuration registers."),
        ("reset", "Restart a board through its flasher."),
    ):
        sub = _command(commands, name, "deploying", summary)
        completed_by(sub.add_argument("--board", required=True, metavar="B", help=_BOARD), boards)
        _add_flasher(sub)
        _add_probe(sub)
        _add_port(sub, "the board's port, for a flasher that uses no probe")
        if name == "erase":
            _add_erase_to_unlock(sub)
        sub.add_output_options()


def _add_flasher(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--flasher",
        metavar="NAME[:KEY=VALUE]",
        help="what programs the board, with settings in place of the board file's (default: the "
        "board's first; `hil boards B` lists them)",
    )


def _add_erase_to_unlock(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--erase-to-unlock",
        action="store_true",
        help="if the chip is locked against the probe, erase all of its memory to open it",
    )


# -- boards ------------------------------------------------------------------------------------

_BOARD = "a board of `hil boards`, or a description file"


def _add_board_commands(commands: Any) -> None:
    list_ = _command(commands, "boards", "looking", "List the boards, or describe one.")
    completed_by(list_.add_argument("name", nargs="?", metavar="BOARD", help=_BOARD), boards)
    list_.add_output_options()
    doctor = _command(
        commands,
        "doctor",
        "looking",
        "Check tools, probes and ports; print remedies for what is missing.",
    )
    # doctor loads plugins itself and reports those that fail.
    doctor.set_defaults(uses_plugins=False)
    completed_by(
        doctor.add_argument("--board", metavar="B", help="also check what this board needs"), boards
    )
    doctor.add_output_options()

    words = _group(commands, "board", "Descriptions of boards.")
    new = _command(words, "new", "describing", "Write a board description from options or answers.")
    new.add_argument("name", metavar="NAME", help="the name of the board and of its file")
    new.add_argument("-o", "--output", metavar="FILE.toml", help="default: ./NAME.toml")
    new.add_argument("--force", action="store_true", help="replace the file")
    new.add_argument("--from", dest="base", metavar="BOARD", help="copy from this description")
    new.add_argument(
        "--flasher",
        metavar="NAME[:KEY=VALUE]",
        help="what programs the board; its settings select a chip that it describes",
    )
    new.add_argument("--description", metavar="TEXT", help="maker, board and core in one line")
    _add_cpu(new, "the core")
    new.add_argument("--clock-hz", metavar="HZ", help="the core's clock after reset")
    for kind in ("flash", "ram"):
        new.add_argument(
            f"--{kind}",
            action="append",
            metavar="[NAME=]ORIGIN:SIZE",
            help=f"a {kind} region such as 0x20000000:64K; may be repeated, in order of preference",
        )
    for role in ("soc", "timer", "uart"):
        new.add_argument(
            f"--{role}", metavar="PORT[,KEY=N]...", help=f"the {role}'s port and its settings"
        )
    new.add_argument("--qemu", metavar="MACHINE", help="QEMU's machine that emulates the board")
    new.add_output_options()


def _group(commands: Any, name: str, summary: str) -> Any:
    """Return the commands below ``name``."""
    group: Parser = commands.add_parser(name, help=summary, description=summary)
    return group.add_commands()


def _add_lab_commands(commands: Any) -> None:
    words = _group(
        commands, "lab", "Boards on other machines, through labgrid's coordinator (LG_COORDINATOR)."
    )
    listed = _command(words, "list", "lab", "List the places, their boards and who uses them.")
    listed.add_argument("filter", nargs="?", metavar="TAG=VALUE,...", help="only matching places")
    listed.add_output_options()
    watch = _command(
        words, "watch", "watching", "Show the places, their users and last results until Ctrl-C."
    )
    watch.add_argument("filter", nargs="?", metavar="TAG=VALUE,...", help="only matching places")
    watch.add_argument(
        "--once", action="store_true", help="show them once, as where stdout is no terminal"
    )
    watch.add_argument(
        "--interval",
        type=positive_float,
        default=2.0,
        metavar="S",
        help="seconds between two looks (default: 2)",
    )
    _add_history(watch)
    watch.add_output_options()
    serve = _command(
        words, "serve", "lab", "Offer boards of this machine to a lab until interrupted."
    )
    serve.add_argument(
        "boards",
        nargs="+",
        metavar="[PLACE=]BOARD[@PROBE]",
        help="a board of `hil boards` or a file; @PROBE gives the probe's uid",
    )
    serve.add_argument(
        "--coordinator", metavar="HOST:PORT", help="the lab's coordinator (default: start one)"
    )
    serve.add_argument(
        "--host", default="127.0.0.1", metavar="NAME", help="this machine's address for clients"
    )
    serve.add_argument("--seconds", type=positive_float, metavar="S", help="stop after S seconds")
    serve.add_output_options()
    reap = _command(words, "reap", "lab", "Release places whose users are gone.")
    reap.add_argument("--seconds", type=positive_float, metavar="S", help="watch for S seconds")
    reap.add_output_options()


# -- options of several commands ---------------------------------------------------------------


def _add_models(
    parser: Parser,
    more: str = "",
    least: Literal[0, 1] = 1,
    several: str = "several models are built into one image",
) -> None:
    parser.add_argument(
        "models",
        nargs="+" if least else "*",
        metavar="MODEL",
        help="a .tflite, .onnx or .pt2 file, or a Model Library Format tar or folder; NAME=path "
        f"names it; {several}{more and f'; {more}'}",
    )


def _add_format(parser: Parser) -> None:
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="write the result as text, json (same as --json) or in a plugin's format "
        "(default: text)",
    )


def _add_board(
    parser: Parser, several: bool = False, required: bool = True, boards_are: str = "on_boards"
) -> _Group:
    """Add the options of the board and its firmware; return the group for further options."""
    board = parser.add_argument_group("board")
    if several:
        action = board.add_argument(
            "--board",
            dest=boards_are,
            action="append",
            required=required,
            default=None if required else [],
            metavar="B",
            help=f"{_BOARD}; may be repeated: the boards are used one after the other",
        )
    else:
        action = board.add_argument("--board", required=required, metavar="B", help=_BOARD)
    completed_by(action, boards)
    board.add_argument(
        "--transport",
        choices=("uart", "rtt"),
        help="the serial line: a UART, or RTT through the probe (default: by the board)",
    )
    board.add_argument(
        "--workspace",
        choices=("own", "shared"),
        default="own",
        help="memory of several models: each its own (default), or shared by all",
    )
    _add_cpu(board, "compile for this core instead of the board's")
    return board


def _add_probe(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--probe",
        metavar="UID",
        help="program through this debug probe (a unique part of its id); `virtual` starts the "
        "board's QEMU machine with a virtual probe",
    )


def _add_port(parser: argparse._ActionsContainer, text: str) -> None:
    parser.add_argument(
        "--port", metavar="URL", help=f"{text} (usb:SERIAL[:INTERFACE], a device file or a URL)"
    )


def _add_cpu(parser: argparse._ActionsContainer, text: str) -> None:
    completed_by(parser.add_argument("--cpu", metavar="CPU", help=text), cores)


def _add_compile_options(
    parser: Parser, compares: bool = False, takes_inputs: bool = False, several_goals: bool = False
) -> None:
    group = parser.add_argument_group(
        "compiler",
        "Options for model files; a compiled library is used unchanged.",
    )
    group.add_argument("--name", metavar="N", help="the model's name in the C code")
    for option, choices, what in (
        ("--codegen", ("c", "llvm"), "output of the compiler (default: c)"),
        ("--api", ("unpacked", "packed"), "calling convention of operators (default: unpacked)"),
        ("--interface", ("c", "packed"), "entry points (default: c)"),
        ("--runtime", ("crt", "cpp"), "TVM runtime that calls the code (default: crt)"),
        ("--pools", ("internal", "external", "calls"), "owner of the workspace memory"),
        ("--constants", ("internal", "external"), "in the code (default) or passed by the caller"),
        (
            "--feed",
            ("whole", "rows"),
            "the input: as a whole (default), or its rows as they come, with only those in memory "
            "that layers need at once",
        ),
    ):
        group.add_argument(option, choices=choices, help=what)
    goal = (
        "goal (default: balanced, at most 30 %% more instructions than the fastest program of "
        "usual flash, for much less memory)"
    )
    goals = ("balanced", "speed", "size", "ram")
    if several_goals:
        parser.set_defaults(optimize=None)
        group.add_argument(
            "--optimize",
            dest="goals",
            action="append",
            choices=goals,
            help=f"{goal}; may be repeated: each is built and run",
        )
    else:
        group.add_argument("--optimize", choices=goals, help=goal)
    parser.set_defaults(compares=compares)
    if not compares:
        group.add_argument(
            "--reference",
            choices=("tflm", "litert-ref"),
            help="compute operators as this reference does where references differ (default: tflm)",
        )
    group.add_argument(
        "--ram",
        type=byte_count,
        metavar="LIMIT",
        help="the fastest program whose workspace fits in this: bytes, 32K or 1M",
    )
    group.add_argument(
        "--flash",
        type=byte_count,
        metavar="LIMIT",
        help="the fastest program whose constants and code fit in this; measured when firmware is "
        "built, estimated otherwise",
    )
    group.add_argument(
        "--tuning", metavar="F.json", help="take the kernels' costs from this log of `hil tune`"
    )
    group.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=N,N,...",
        help="the shape of an input that an ONNX model leaves open: x=1,3,224,224; may be repeated",
    )
    # Where a run takes inputs, the other word is for those.
    group.add_argument(
        *(("--constant",) if takes_inputs else ("--constant", "--input")),
        dest="constant",
        action="append",
        default=[],
        metavar="NAME=F.npy",
        help="the values of an ONNX model's input that the compiler must know, such as axes; they "
        "become a constant",
    )
    group.add_argument(
        "--fold-constant-channels",
        action="yes_no",
        default=None,
        help="remove channels that are the same for every input (default: yes)",
    )
    group.add_argument(
        "--allow-float",
        action="store_true",
        default=None,
        help="compute layers of a quantized ONNX model in floats where they have no form on "
        "integers; each is listed",
    )
    group.add_argument(
        "--memory",
        metavar="REGION[:BYTES],...",
        help="RAM regions for the pools, the preferred one first, with optional limits",
    )
    group.add_argument(
        "--keep-inputs",
        action="store_true",
        default=None,
        help="with inputs in the workspace: a run does not overwrite them",
    )
    group.add_argument(
        "--pin",
        action="append",
        metavar="TENSOR=[REGION:]OFFSET",
        help="place an input or output at this offset in the workspace",
    )
    group.add_argument(
        "--external",
        action="append",
        default=[],
        metavar="FILE.py[:FACTORY][,KEY=VALUE]...",
        help="hand parts of the model to this code generator; may be repeated",
    )


def _add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace files at the output path even if they were edited or are not hil's",
    )


def _add_quantize_inputs(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--quantize-inputs",
        action="store_true",
        help="convert floats in the files of inputs by the inputs' scales and zero points",
    )


def _add_seed(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--seed",
        type=natural_int,
        default=0,
        metavar="S",
        help="seed of random inputs (default: 0)",
    )
