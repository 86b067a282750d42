"""The whole command line: each command, its options, and the function that runs it.

Nothing is imported here that `hil --help` does not need: a command's module loads the compiler.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from hil.cli.commands.code_options import add_code_options
from hil.cli.commands.completing import boards, completed_by, cores
from hil.cli.commands.parser import (
    Parser,
    Version,
    byte_count,
    natural_int,
    positive_float,
    positive_int,
)
from hil.plugins import optional_module

_SECTIONS = {
    "models": ("compile", "explain", "build"),
    "models on boards": ("run", "verify", "bench", "tune", "flash", "debug", "monitor"),
    "boards": ("boards", "board", "erase", "reset", "lab"),
    "this program": ("doctor", "help", "completion", "tvmc"),
}
_SHELL = "bash, zsh or fish; load it where the shell starts (~/.bashrc, config.fish)"
#: What has the methods of a parser, and a title in its help.
_Group = argparse._ArgumentGroup


def build_parser(words: Sequence[str] | None = None) -> Parser:
    """Return the parser of the whole command line, or of as much of it as ``words`` need.

    What tvmc's flags are is the compiler's knowledge, which takes a while to load.
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
    """Return a command, which ``NAME_command`` of ``hil.cli.commands.MODULE`` runs."""
    sub: Parser = commands.add_parser(name, help=summary, description=summary)
    sub.set_defaults(handler=(f"hil.cli.commands.{module}", f"{name}_command"), parser=sub)
    return sub


# -- models ------------------------------------------------------------------------------------


def _add_model_commands(commands: Any) -> None:
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
        commands, "explain", "explaining", "Say what a model's memory plan does, and draw it."
    )
    _add_models(explain)
    explain.add_argument("-o", "--output", metavar="FILE", help="draw it (.svg, .png or .pdf)")
    _add_force(explain)
    _add_board(explain)
    _add_compile_options(explain)
    explain.add_output_options()

    build = _command(
        commands,
        "build",
        "compiling",
        "Build a firmware project and its ELF; report the sizes.",
    )
    _add_models(build)
    build.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="folder for the project; of several boards, for a folder of each",
    )
    _add_force(build)
    _add_format(build)
    build.add_argument("--sizes", action="store_true", help="show each section, and whose it is")
    _add_board(build, several=True)
    add_code_options(build)
    _add_compile_options(build)
    build.add_output_options()


# -- models on boards --------------------------------------------------------------------------


def _add_measuring_commands(commands: Any) -> None:
    run = _command(commands, "run", "running", "Run one inference.")
    _add_models(run)
    run.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=F.npy",
        help="an input's values; inputs not given are random, from --seed",
    )
    run.add_argument("-o", "--output", metavar="OUT.npz", help="write the outputs here")
    _add_force(run)
    _add_seed(run)
    _add_device_options(run)

    verify = _command(commands, "verify", "running", "Compare a model on a board with a reference.")
    _add_models(verify)
    verify.add_argument(
        "--samples", type=positive_int, metavar="N", help="samples to run (default: 10, or all)"
    )
    _add_seed(verify)
    verify.add_argument("--inputs", metavar="F.npz", help="samples: arrays named as the inputs")
    verify.add_argument("--expect", metavar="F.npz", help="outputs to expect, for --inputs")
    verify.add_argument(
        "--reference",
        metavar="NAME",
        help="tflm, litert-ref, litert or hilc (default: tflm if it runs the model); a model file "
        "is compiled to compute as this one does",
    )
    _add_format(verify)
    verify.add_argument(
        "--per-layer", action="store_true", help="compare every layer's outputs, too"
    )
    verify.add_argument(
        "--keep-state",
        action="store_true",
        help="take the samples as one sequence: states are reset before the first alone",
    )
    _add_device_options(
        verify,
        several=True,
        source="or the model file that the library was compiled from, where it does not have it",
        compares=True,
    )

    bench = _command(
        commands, "bench", "running", "Count instructions or cycles; report sizes and memory."
    )
    _add_models(bench)
    bench.add_argument(
        "--runs", type=positive_int, default=1, metavar="N", help="measured inferences (default: 1)"
    )
    _add_format(bench)
    bench.add_argument("--per-layer", action="store_true", help="show each layer")
    bench.add_argument(
        "--cycles",
        action="store_true",
        help="show which instructions are executed, and estimate a Cortex-M4's cycles for them",
    )
    _add_seed(bench)
    _add_device_options(bench, several=True)

    tune = _command(
        commands,
        "tune",
        "tuning",
        "Measure the kernels that can compute a model's layers; write a log.",
    )
    _add_models(tune)
    tune.add_argument(
        "-o", "--output", metavar="F.json", help="the log (default: MODEL.tuning.json)"
    )
    _add_force(tune)
    _add_seed(tune)
    _add_device_options(tune)

    monitor = _command(commands, "monitor", "looking", "Show a board's logs, faults and console.")
    monitor.add_argument("models", nargs="*", metavar="MODEL", help="as for build")
    monitor.add_argument("--seconds", type=positive_float, metavar="S", help="stop after S seconds")
    _add_device_options(monitor, required=False, lab=False)


def _add_device_options(
    parser: Parser,
    several: bool = False,
    required: bool = True,
    lab: bool = True,
    source: str = "",
    compares: bool = False,
) -> None:
    """Add the options of a command on a running board, which may be one of a lab.

    One that ``compares`` has an option of its own for the reference.
    """
    if lab:
        parser.set_defaults(lab=None)
    board = _add_board(parser, several, required)
    board.add_argument(
        "--runner",
        metavar="NAME",
        help="qemu, renode, pyocd, native or a plugin's, where a board has several",
    )
    _add_probe(board)
    _add_port(
        board,
        "use the firmware that runs at this serial port or pyserial URL; with --probe or "
        "--runner: the port of the board that is programmed",
    )
    board.add_argument(
        "--bulk",
        action="yes_no",
        default=None,
        help="read and write tensors in the board's memory, through QEMU or the probe that has the "
        "serial line; --no-bulk: over that line (default: memory where QEMU emulates the board "
        "and the firmware agrees)",
    )
    add_code_options(parser, source)
    _add_compile_options(parser, compares)
    parser.add_output_options()


def _add_probe_commands(commands: Any) -> None:
    flash = _command(
        commands, "flash", "deploying", "Program a board, read back, reset, and ask who it is."
    )
    debug = _command(
        commands, "debug", "deploying", "Start a gdb server on a board; say how to connect."
    )
    for sub in (flash, debug):
        _add_models(sub, "or the ELF file of an image")
        board = _add_board(sub)
        _add_probe(board)
        _add_port(board, "the board's serial port, where it is not the probe's own")
        if sub is debug:
            board.add_argument(
                "--runner", metavar="NAME", help="qemu or pyocd (default: the board's)"
            )
        add_code_options(sub)
        _add_compile_options(sub)
        sub.add_output_options()
    for name, summary in (
        ("erase", "Erase the whole flash of a board."),
        ("reset", "Restart a board through its debug probe."),
    ):
        sub = _command(commands, name, "deploying", summary)
        completed_by(sub.add_argument("--board", required=True, metavar="B", help=_BOARD), boards)
        _add_probe(sub)
        sub.add_output_options()


# -- boards ------------------------------------------------------------------------------------

_BOARD = "a board of `hil boards`, or the file of one"


def _add_board_commands(commands: Any) -> None:
    list_ = _command(commands, "boards", "looking", "List the boards, or describe one.")
    completed_by(list_.add_argument("name", nargs="?", metavar="BOARD", help=_BOARD), boards)
    list_.add_output_options()
    doctor = _command(
        commands,
        "doctor",
        "looking",
        "Check tools, probes and ports; say what is missing and how to get it.",
    )
    # It tells which of them cannot be imported.
    doctor.set_defaults(uses_plugins=False)
    completed_by(
        doctor.add_argument("--board", metavar="B", help="also what this board needs"), boards
    )
    doctor.add_output_options()

    words = _group(commands, "board", "Descriptions of boards.")
    new = _command(
        words, "new", "describing", "Write a board description, from answers or from options."
    )
    new.add_argument("name", metavar="NAME", help="the board's name, and its file's")
    new.add_argument("-o", "--output", metavar="FILE.toml", help="default: ./NAME.toml")
    new.add_argument("--force", action="store_true", help="replace the file")
    new.add_argument("--from", dest="base", metavar="BOARD", help="start with this description")
    new.add_argument("--pyocd-target", metavar="T", help="memory and core as pyOCD knows them")
    new.add_argument("--description", metavar="TEXT", help="maker, board, core, in one line")
    _add_cpu(new, "the core")
    new.add_argument("--clock-hz", metavar="HZ", help="the core's clock as it is after reset")
    for kind in ("flash", "ram"):
        new.add_argument(
            f"--{kind}",
            action="append",
            metavar="[NAME=]ORIGIN:SIZE",
            help=f"a {kind} region such as 0x20000000:64K, the first to use first; repeat for more",
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
    listed.add_argument("filter", nargs="?", metavar="TAG=VALUE,...", help="only those that fit")
    listed.add_output_options()
    serve = _command(
        words, "serve", "lab", "Offer boards of this machine to a lab until interrupted."
    )
    serve.add_argument(
        "boards",
        nargs="+",
        metavar="[PLACE=]BOARD[@PROBE]",
        help="a board of `hil boards` or a file; with the uid of its probe where it is real",
    )
    serve.add_argument(
        "--coordinator", metavar="HOST:PORT", help="of the lab (default: start one of its own)"
    )
    serve.add_argument(
        "--host", default="127.0.0.1", metavar="NAME", help="this machine's address for the others"
    )
    serve.add_argument("--seconds", type=positive_float, metavar="S", help="stop after S seconds")
    serve.add_output_options()
    reap = _command(words, "reap", "lab", "Give back places whose users are gone.")
    reap.add_argument("--seconds", type=positive_float, metavar="S", help="look for S seconds")
    reap.add_output_options()


# -- options of several commands ---------------------------------------------------------------


def _add_models(parser: Parser, more: str = "") -> None:
    parser.add_argument(
        "models",
        nargs="+",
        metavar="MODEL",
        help="a .tflite file or a Model Library Format tar or folder; NAME=path names the model; "
        f"several make one image{more and f'; {more}'}",
    )


def _add_format(parser: Parser) -> None:
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="write the result as text, json (as --json does), or in a plugin's format "
        "(default: text)",
    )


def _add_board(parser: Parser, several: bool = False, required: bool = True) -> _Group:
    """Return the board, and what a firmware for it is built of; more of the board goes into the
    group.
    """
    board = parser.add_argument_group("board")
    if several:
        action = board.add_argument(
            "--board",
            dest="on_boards",
            action="append",
            required=required,
            metavar="B",
            help=f"{_BOARD}; repeat it for several, one after the other",
        )
    else:
        action = board.add_argument("--board", required=required, metavar="B", help=_BOARD)
    completed_by(action, boards)
    board.add_argument(
        "--transport",
        choices=("uart", "rtt"),
        help="the serial line: a UART, or RTT through the probe (default: the board's)",
    )
    board.add_argument(
        "--workspace",
        choices=("own", "shared"),
        default="own",
        help="of several models: each its own (default), or all the same bytes",
    )
    _add_cpu(board, "compile for this core instead of the board's")
    return board


def _add_probe(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--probe",
        metavar="UID",
        help="program through this debug probe (a part of its id is enough); `virtual` puts one on "
        "the board's QEMU machine",
    )


def _add_port(parser: argparse._ActionsContainer, text: str) -> None:
    parser.add_argument("--port", metavar="URL", help=text)


def _add_cpu(parser: argparse._ActionsContainer, text: str) -> None:
    completed_by(parser.add_argument("--cpu", metavar="CPU", help=text), cores)


def _add_compile_options(parser: Parser, compares: bool = False) -> None:
    group = parser.add_argument_group(
        "compiler",
        "What becomes of a model file; a library that is compiled already stays as it is.",
    )
    group.add_argument("--name", metavar="N", help="the model's name in the C code")
    for option, choices, what in (
        ("--codegen", ("c", "llvm"), "form of the code (default: c)"),
        ("--api", ("unpacked", "packed"), "arguments of the operators (default: unpacked)"),
        ("--interface", ("c", "packed"), "entry points (default: c)"),
        ("--runtime", ("crt", "cpp"), "run time of TVM that the code is for (default: crt)"),
        ("--pools", ("internal", "external", "calls"), "where a run gets its memory from"),
        ("--constants", ("internal", "external"), "in the code (default), or the caller's"),
        (
            "--optimize",
            ("balanced", "speed", "size", "ram"),
            "goal (default: balanced, at most 30 %% more instructions than speed for much less "
            "memory)",
        ),
    ):
        group.add_argument(option, choices=choices, help=what)
    parser.set_defaults(compares=compares)
    if not compares:
        group.add_argument(
            "--reference",
            choices=("tflm", "litert-ref"),
            help="compute operators as this reference does, where they disagree (default: tflm)",
        )
    group.add_argument(
        "--ram",
        type=byte_count,
        metavar="LIMIT",
        help="the fastest program whose workspace takes at most this: bytes, 32K or 1M",
    )
    group.add_argument(
        "--flash",
        type=byte_count,
        metavar="LIMIT",
        help="the fastest program whose constants and code take at most this; measured where "
        "firmware is built, by estimate where it is not",
    )
    group.add_argument(
        "--tuning", metavar="F.json", help="take kernels' costs from this log of `hil tune`"
    )
    group.add_argument(
        "--fold-constant-channels",
        action="yes_no",
        default=None,
        help="leave out channels that are the same for every input (default: yes)",
    )
    group.add_argument(
        "--memory",
        metavar="REGION[:BYTES],...",
        help="RAM regions of the board to plan pools in, the preferred first, with limits",
    )
    group.add_argument(
        "--keep-inputs",
        action="store_true",
        default=None,
        help="with inputs in the workspace: a run leaves them as they are",
    )
    group.add_argument(
        "--pin",
        action="append",
        metavar="TENSOR=[REGION:]OFFSET",
        help="an input or output lies so many bytes behind the workspace's start",
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
        help="replace files at the output's place that were edited, or are not hil's",
    )


def _add_seed(parser: Parser) -> None:
    parser.add_argument(
        "--seed", type=natural_int, default=0, metavar="S", help="of random inputs (default: 0)"
    )
