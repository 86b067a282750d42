"""Options that several commands take, each stated once.

`hil --help` imports this module: what it imports must not load the compiler.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal

from hil.cli.completing import boards, completed_by, cores
from hil.cli.parser import (
    Parser,
    byte_count,
    natural_int,
    number_list,
    positive_float,
    positive_int,
)

if TYPE_CHECKING:
    from hilc.support.option import Option

BOARD = "a board of `hil boards`, a description file, or NAME@bench of the bench file"
#: Models among what ``--source`` names.
LIBRARY_MODEL = "or the source model, if the archive lacks it"
#: How many samples ``verify`` takes without ``--samples``.
SAMPLES = "all of --inputs; else extremes, then random ones, 10 to 100, as many as fit in about 5 s"
#: The accepted measurements of ``compare`` and ``gate``.
MEASUREMENTS = (
    "a .json file of `hil bench --json`, an id of `hil history`, a commit whose newest "
    "measurements are in the history, or a model to be measured on --board"
)
#: A parser or a group of options, with a title in the help.
Group = argparse._ArgumentGroup


def add_models(
    parser: Parser,
    more: str = "",
    least: Literal[0, 1] = 1,
    several: str = "several models are built into one image",
) -> None:
    """Add the MODEL arguments; ``least`` is the least number of them."""
    parser.add_argument(
        "models",
        nargs="+" if least else "*",
        metavar="MODEL",
        help="a .tflite, .onnx or .pt2 file, or a Model Library Format tar or folder; NAME=path "
        f"names it; {several}{more and f'; {more}'}",
    )


def add_force(parser: argparse.ArgumentParser) -> None:
    """Add ``--force``."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace files at the output path even if they were edited or are not hil's",
    )


def add_seed(parser: argparse._ActionsContainer) -> None:
    """Add ``--seed``."""
    parser.add_argument(
        "--seed",
        type=natural_int,
        default=0,
        metavar="S",
        help="seed of random inputs (default: 0)",
    )


def add_quantize_inputs(parser: argparse._ActionsContainer) -> None:
    """Add ``--quantize-inputs``."""
    parser.add_argument(
        "--quantize-inputs",
        action="store_true",
        help="convert floats in the files of inputs by the inputs' scales and zero points",
    )


def add_allow_fallback(parser: argparse._ActionsContainer) -> None:
    """Add ``--allow-fallback``."""
    parser.add_argument(
        "--allow-fallback",
        action="store_true",
        help="compare with this compiler's own interpreter if the default reference cannot run, "
        "also in CI, in pytest and for hil gate, where that is an error",
    )


def add_check(parser: argparse._ActionsContainer) -> None:
    """Add the options of measuring commands that compare outputs."""
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="do not compare outputs with the reference",
    )
    add_allow_fallback(parser)


def add_measuring_options(
    parser: Parser,
    inputs: str = "measure the first sample of a file: one array per input; of one input also an "
    "NPY file",
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
        "--memory-models",
        type=positive_int,
        metavar="N",
        help="on a simulated core, count also with flash of no wait states, of N, and of N with "
        "prefetch",
    )
    group.add_argument(
        "--energy",
        metavar="METER[:ARGUMENT]",
        help="record the energy of as many inferences: trace:FILE.csv, joulescope[:KEY=VALUE,...], "
        "ppk2:KEY=VALUE,..., or a plugin's",
    )
    add_check(group)
    add_seed(group)
    group.add_argument("--inputs", metavar="F.npz", help=inputs)
    add_quantize_inputs(group)


def add_history(parser: argparse._ActionsContainer) -> None:
    """Add ``--history``."""
    parser.add_argument(
        "--history",
        metavar="FILE",
        help="the file of recorded results (default: HIL_HISTORY, or `history` in config.toml)",
    )


def add_recording(parser: Parser) -> None:
    """Add the options of a command that records its results."""
    add_history(parser)
    parser.add_argument(
        "--no-history", action="store_true", help="do not record the result in the history"
    )


def add_data_options(parser: Parser) -> None:
    """Add the options that say what a data set is."""
    group = parser.add_argument_group("data set")
    group.add_argument(
        "--labels",
        metavar="WHERE",
        help="the labels: an array of the NPZ file or an NPY file (default: labels, y and such); "
        "columns of a CSV file, by name or number from 0 (default: the one of such a name, or the "
        "last)",
    )
    group.add_argument(
        "--classes",
        metavar="A,B,...",
        help="names of the classes in the order of the model's outputs, or a file with one a line "
        "(default: sorted, or the numbers themselves)",
    )
    group.add_argument(
        "--samples", type=positive_int, metavar="N", help="draw N samples at random (default: all)"
    )
    add_seed(parser)
    group.add_argument(
        "--mean",
        type=number_list,
        metavar="M",
        help="subtract M from every value, or one M,M,M per channel, and quantize the result",
    )
    group.add_argument(
        "--std", type=number_list, metavar="S", help="then divide by S, such as 255 for images"
    )
    group.add_argument("--integers", action="store_true", help="the values are quantized already")


def add_board(
    parser: Parser, several: bool = False, required: bool = True, boards_are: str = "on_boards"
) -> Group:
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
            help=f"{BOARD}; may be repeated: the boards are used one after the other",
        )
    else:
        action = board.add_argument("--board", required=required, metavar="B", help=BOARD)
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
    add_cpu(board, "compile for this core instead of the board's")
    return board


def add_code_options(parser: argparse.ArgumentParser, source: str = "") -> None:
    """Add ``--include-dir`` and ``--source``; ``source`` names its other values."""
    group = parser.add_argument_group(
        "additional code", "Headers and sources that the models' code needs, such as CMSIS-NN."
    )
    group.add_argument(
        "--include-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder of headers; may be repeated",
    )
    group.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="FILE",
        help="a C, assembly or object file, or a folder of them; may be repeated"
        f"{source and f'; {source}'}",
    )


def add_probe(parser: argparse._ActionsContainer) -> None:
    """Add ``--probe``, and ``--bench`` and ``--wait``, which every command on a board has."""
    parser.add_argument(
        "--probe",
        metavar="UID",
        help="program through this debug probe (a unique part of its id); `virtual` starts the "
        "board's QEMU machine, or its RTL, with a virtual probe",
    )
    add_bench_file(parser)
    parser.add_argument(
        "--wait",
        type=positive_float,
        metavar="S",
        help="wait up to S seconds for a board that is in use, and for a probe or port that is not "
        "connected (default: 0; for a place of a lab: 600)",
    )


def add_bench_file(parser: argparse._ActionsContainer) -> None:
    """Add ``--bench``."""
    parser.add_argument(
        "--bench",
        dest="bench_file",
        metavar="FILE",
        help="the bench file (default: HIL_BENCH, or hil-bench.toml here or in a folder above)",
    )


def add_flasher(parser: argparse._ActionsContainer) -> None:
    """Add ``--flasher``."""
    parser.add_argument(
        "--flasher",
        metavar="NAME[:KEY=VALUE]",
        help="the flasher that programs the board, with settings in place of the board file's "
        "(default: the board's first; `hil boards B` lists them)",
    )


def add_erase_to_unlock(parser: argparse._ActionsContainer) -> None:
    """Add ``--erase-to-unlock``."""
    parser.add_argument(
        "--erase-to-unlock",
        action="store_true",
        help="if the chip is locked against the probe, erase all of its memory to open it",
    )


def add_port(parser: argparse._ActionsContainer, text: str) -> None:
    """Add ``--port``, described by ``text``."""
    parser.add_argument(
        "--port", metavar="URL", help=f"{text} (usb:SERIAL[:INTERFACE], a device file or a URL)"
    )


def add_transcript(parser: argparse._ActionsContainer) -> None:
    """Add the options of a command that prints what a board says."""
    parser.add_argument(
        "--timestamps",
        action="store_true",
        help="begin each line with date and time instead of the seconds since the start",
    )
    parser.add_argument("--log", metavar="F", help="append the lines to this file, too")


def add_cpu(parser: argparse._ActionsContainer, text: str) -> None:
    """Add ``--cpu``, described by ``text``."""
    completed_by(parser.add_argument("--cpu", metavar="CPU", help=text), cores)


def add_device_options(
    parser: Parser,
    several: bool = False,
    required: bool = True,
    lab: bool = True,
    source: str = "",
    compares: bool = False,
    boards_are: str = "on_boards",
) -> None:
    """Add the options of a command that runs on a board or on a board of a lab.

    A command that ``compares`` defines ``--reference`` itself.
    """
    if lab:
        parser.set_defaults(lab=None)
    board = add_board(parser, several, required, boards_are)
    board.add_argument(
        "--runner",
        metavar="NAME[:KEY=VALUE]",
        help="the runner that starts the board: an emulator, or the flasher of a real one, with "
        "settings in place of the board file's (default: the board's first; `hil boards B` lists "
        "them)",
    )
    add_probe(board)
    add_port(
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
    add_compile_options(parser, compares, several_goals=several)
    if several:
        add_matrix_options(parser, is_report=boards_are != "on_boards")


def add_matrix_options(parser: Parser, *, is_report: bool) -> None:
    """Add the options of a command that runs on several boards, with several goals and models.

    A report always builds one image per model, and is itself the file of results.
    """
    group = parser.add_argument_group(
        "matrix",
        "Several boards and goals make a matrix, whose combinations run one by one. The board "
        "`emulated` selects all that QEMU emulates here.",
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


def add_compile_options(
    parser: Parser,
    compares: bool = False,
    several_goals: bool = False,
    without: Collection[str] = (),
) -> None:
    """Add the options of the compiler, from the fields of :class:`hilc.CompileOptions`, ``without``
    those of some names.

    A command that ``compares`` defines ``--reference`` itself.
    """
    # Not at the top: the help of the program needs the names of commands only.
    from hilc.options import CompileOptions
    from hilc.support.option import options_of

    group = parser.add_argument_group(
        "compiler",
        "Options for model files; a compiled library is used unchanged.",
    )
    parser.set_defaults(compares=compares)
    # In release 0.1 another name of --constant, but not where a command takes input values.
    if "--input" not in parser._option_string_actions:
        parser.renamed["--input"] = "--constant"
    defaults = {each.name: each.default for each in fields(CompileOptions)}
    for name, stated in options_of(CompileOptions).items():
        if stated.form is None or (compares and name == "reference") or name in without:
            continue
        several = several_goals and name == "optimize"
        if several:
            parser.set_defaults(optimize=None)
        _add_option(group, name, stated, defaults[name], several)


def _add_option(group: Group, name: str, stated: Option, default: Any, several: bool) -> None:
    """Add the option of a field; a list of goals if ``several``."""
    from hilc.support.option import flag_of

    text = stated.help.replace("%", "%%")
    if stated.choices and default is not None and "(default" not in text:
        text = f"{text} (default: {default})"
    settings: dict[str, Any] = {}
    if stated.form == "bytes":
        settings = {"type": byte_count}
    elif stated.form == "switch":
        settings = {"action": "store_true", "default": None}
    elif stated.form == "yes_no":
        settings = {"action": "yes_no", "default": None}
        text = f"{text} (default: {'yes' if default else 'no'})"
    elif stated.form == "repeated":
        settings = {"action": "append", "default": []}
        text = f"{text}; may be repeated"
    if several:
        settings = {"action": "append", "dest": "goals"}
        text = f"{text}; may be repeated: each is built and run"
    if stated.choices:
        settings["choices"] = stated.choices
    if stated.metavar:
        settings["metavar"] = stated.metavar
    group.add_argument(flag_of(name, stated), help=text, **settings)


def add_mlperf_options(parser: Parser, option: str, default: str | None) -> None:
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
            "--energy-mode",
            dest="energy",
            action="store_true",
            help="for an energy monitor: 9600 baud; a pin marks times (--source pin.c)",
        )
        parser.renamed["--energy"] = "--energy-mode"
