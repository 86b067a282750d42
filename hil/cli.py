"""The ``hil`` command: parses, calls, prints, and turns errors into exit codes.

=====  =====================================================================================
code   meaning
=====  =====================================================================================
0      good
1      outputs differ
2      bad input or usage
3      the build failed, or the image does not fit the board
4      board, emulator, probe or link failed; ``doctor``: something required is missing
70     a bug in this program: the traceback is on stderr
130    interrupted; 143 terminated, 141 the reader of stdout went away
=====  =====================================================================================
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from types import FrameType
from typing import Any, NoReturn

from hil.byte_counts import parse_bytes
from hil.commands.tvmc_flags import explain_flag
from hil.commands.tvmc_parser import add_tvmc
from hil.console import Console
from hil.lab.wanted import parse_wanted
from hilc.errors import HilError, InputError

EXIT_BUG = 70
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM
EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE

#: Runs a command: ``(arguments, console) -> exit code``.
Handler = Callable[[argparse.Namespace, Console], int]


class UsageError(InputError):
    """The command line itself is wrong."""


class _Terminated(BaseException):
    """SIGTERM, as an exception, so that every ``with`` block closes what it opened."""


class _Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that usage errors look like every other error."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Needed before parsing has succeeded: a usage error is reported in the form asked for, too.
    as_json = "--json" in words
    # Only the main thread may set handlers; a caller elsewhere keeps its own.
    try:
        previous = signal.signal(signal.SIGTERM, _raise_terminated)
    except ValueError:
        previous = None
    try:
        code = _run(words)
        # What is still buffered must fail here rather than at interpreter exit.
        sys.stdout.flush()
        return code
    except HilError as error:
        return _report(error, as_json)
    except BrokenPipeError:
        return _quiet_broken_pipe()
    except OSError as error:
        # A file or folder that the system refuses is the user's to mend; anything else is ours.
        if error.filename is None:
            return _bug()
        return _report(InputError(f"cannot use {error.filename}: {error.strerror}"), as_json)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except _Terminated:
        return EXIT_TERMINATED
    except Exception:
        return _bug()
    finally:
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)


def _run(words: Sequence[str]) -> int:
    try:
        args, unknown = build_parser().parse_known_args(words)
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    if unknown:
        raise _unknown_arguments(args.parser, unknown)
    module_name, function_name = args.handler
    console = Console(args.json)
    with _board_of_lab(args, console):
        handler: Handler = getattr(importlib.import_module(module_name), function_name)
        return handler(args, console)


@contextlib.contextmanager
def _board_of_lab(args: argparse.Namespace, console: Console) -> Iterator[None]:
    """Acquires the board that ``--board lab:...`` asks for; the command sees which one it is."""
    board = getattr(args, "board", None)
    wanted = parse_wanted(board) if board else None
    if wanted is None:
        yield
        return
    if "lab" not in args:
        raise InputError(
            f"{args.parser.prog} uses no board of a lab",
            "name the board's description, or use hil run, verify or bench",
        )
    given = [f"--{word}" for word in ("runner", "port", "probe", "transport") if vars(args)[word]]
    if given:
        raise InputError(f"a board of a lab comes with its own line, not {given[0]}", "drop it")
    from hil.lab import leased

    with leased(wanted) as lab:
        console.log(f"using {lab.place}, a {lab.board.name} of the lab")
        args.lab, args.board = lab, str(lab.board.path)
        yield


def _unknown_arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> HilError:
    """The error for words that the command does not know: it names those that are near."""
    flags = [word.partition("=")[0] for word in words if word.startswith("-")]
    if flags and (error := explain_flag(flags[0])):
        return error
    known = list(parser._option_string_actions)
    near = [flag for word in flags for flag in difflib.get_close_matches(word, known, 3, 0.6)]
    did_you_mean = f"did you mean {' or '.join(dict.fromkeys(near))}? " if near else ""
    return UsageError(
        f"unrecognized arguments: {' '.join(words)}", f"{did_you_mean}see `{parser.prog} --help`"
    )


def _report(error: HilError, as_json: bool) -> int:
    if as_json:
        message = {
            "message": error.fact,
            "hint": error.hint,
            "class": error.kind,
            "exit_code": error.exit_code,
        }
        try:
            print(json.dumps({"error": message}, indent=2), flush=True)
        except BrokenPipeError:
            _quiet_broken_pipe()
    print(f"error: {error}", file=sys.stderr)
    return error.exit_code


def _bug() -> int:
    """Reports the exception that is being handled."""
    traceback.print_exc()
    print("\nerror: this is a bug in hil; please report it with the text above", file=sys.stderr)
    return EXIT_BUG


def _quiet_broken_pipe() -> int:
    # Python flushes stdout once more at exit; give that flush somewhere to go.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_BROKEN_PIPE


def _raise_terminated(signum: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(
        prog="hil",
        description="Compile trained models for microcontrollers and prove the result on a board.",
        epilog="Exit: 0 good, 1 outputs differ, 2 bad input or usage, 3 build failed, "
        "4 board or link failed.",
    )
    parser.add_argument("--version", action="version", version=f"hil {_version()}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)

    def command(name: str, module: str, summary: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        sub.add_argument("--json", action="store_true", help="one JSON object on stdout")
        sub.set_defaults(handler=(f"hil.commands.{module}", f"{name}_command"), parser=sub)
        return sub

    compile_ = command(
        "compile", "compiling", "Compile models to C in a Model Library Format file."
    )
    _add_models(compile_)
    compile_.add_argument(
        "-o", "--output", required=True, metavar="OUT[.tar]", help="tar or folder"
    )
    target = compile_.add_mutually_exclusive_group()
    target.add_argument("--board", metavar="B", help="compile for this board's core")
    _add_cpu(target, "compile for this core (default: host)")
    _add_compile_options(compile_)

    explain = command("explain", "explaining", "Say what a model's memory plan does, and draw it.")
    _add_models(explain)
    _add_board(explain)
    explain.add_argument("-o", "--output", metavar="F.svg", help="draw it (.svg, .png or .pdf)")

    build = command("build", "compiling", "Build a firmware project and its ELF; report the sizes.")
    _add_models(build)
    _add_board(build)
    build.add_argument("-o", "--output", metavar="DIR", help="folder for the project")
    build.add_argument("--sizes", action="store_true", help="show each section, and whose it is")

    run = command("run", "running", "Run one inference.")
    _add_models(run)
    _add_board(run, device=True)
    run.set_defaults(lab=None)
    run.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=F.npy",
        help="an input's values; inputs not given are random, from --seed",
    )
    run.add_argument("-o", "--output", metavar="OUT.npz", help="write the outputs here")
    _add_seed(run)

    verify = command("verify", "running", "Compare a model on a board with a reference.")
    _add_models(verify)
    _add_board(verify, device=True)
    verify.set_defaults(lab=None)
    verify.add_argument(
        "--samples", type=_positive_int, metavar="N", help="samples to run (default: 10, or all)"
    )
    _add_seed(verify)
    verify.add_argument("--inputs", metavar="F.npz", help="samples: arrays named as the inputs")
    verify.add_argument("--expect", metavar="F.npz", help="outputs to expect, for --inputs")
    verify.add_argument(
        "--reference", metavar="NAME", help="tflm, litert or hilc (default: tflm if installed)"
    )
    verify.add_argument(
        "--source",
        metavar="MODEL",
        help="the model file that the library was compiled from, where it does not have it",
    )
    verify.add_argument(
        "--per-layer", action="store_true", help="compare every layer's outputs, too"
    )

    bench = command("bench", "running", "Count instructions or cycles; report sizes and memory.")
    _add_models(bench)
    _add_board(bench, device=True)
    bench.set_defaults(lab=None)
    bench.add_argument(
        "--runs",
        type=_positive_int,
        default=1,
        metavar="N",
        help="measured inferences (default: 1)",
    )
    bench.add_argument("--per-layer", action="store_true", help="show each layer")
    bench.add_argument(
        "--cycles",
        action="store_true",
        help="show which instructions are executed, and estimate a Cortex-M4's cycles for them",
    )
    _add_seed(bench)

    tune = command(
        "tune", "tuning", "Measure the kernels that can compute a model's layers; write a log."
    )
    _add_models(tune)
    _add_board(tune, device=True)
    tune.set_defaults(lab=None)
    tune.add_argument(
        "-o", "--output", metavar="F.json", help="the log (default: MODEL.tuning.json)"
    )
    _add_seed(tune)

    flash = command("flash", "deploying", "Program a board, read back, reset, and ask who it is.")
    _add_models(flash, "or the ELF file of an image")
    _add_board(flash)
    _add_probe(flash)
    _add_port(flash, "the board's serial port, where it is not the probe's own")

    for name, summary in (
        ("erase", "Erase the whole flash of a board."),
        ("reset", "Restart a board through its debug probe."),
    ):
        sub = command(name, "deploying", summary)
        sub.add_argument("--board", required=True, metavar="B", help="a board of `hil boards`")
        _add_probe(sub)

    debug = command("debug", "deploying", "Start a gdb server on a board; say how to connect.")
    _add_models(debug, "or the ELF file of an image")
    _add_board(debug)
    _add_probe(debug)
    _add_port(debug, "the board's serial port, where it is not the probe's own")
    debug.add_argument("--runner", metavar="NAME", help="qemu or pyocd (default: the board's)")

    boards = command("boards", "looking", "List the boards, or describe one.")
    boards.add_argument("name", nargs="?", metavar="BOARD", help="a board or the file of one")
    _add_board_words(commands)
    _add_lab_words(commands)
    doctor = command(
        "doctor", "looking", "Check tools, probes and ports; say what is missing and how to get it."
    )
    doctor.add_argument("--board", metavar="B", help="also what this board needs")

    monitor = command("monitor", "looking", "Show a board's logs, faults and console.")
    monitor.add_argument("models", nargs="*", metavar="MODEL", help="as for build")
    _add_board(monitor, device=True, required=False)
    monitor.add_argument(
        "--seconds", type=_positive_float, metavar="S", help="stop after S seconds"
    )
    add_tvmc(commands, _Parser)
    return parser


def _add_models(parser: argparse.ArgumentParser, more: str = "") -> None:
    parser.add_argument(
        "models",
        nargs="+",
        metavar="MODEL",
        help="a .tflite file or a Model Library Format tar or folder; NAME=path names the model; "
        f"several make one image{more and f'; {more}'}",
    )


def _add_lab_words(commands: Any) -> None:
    """``hil lab``: boards on other machines."""
    text = "Boards on other machines, through labgrid's coordinator (LG_COORDINATOR)."
    lab = commands.add_parser("lab", help=text, description=text, allow_abbrev=False)
    words = lab.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)

    def word(name: str, summary: str) -> argparse.ArgumentParser:
        sub: argparse.ArgumentParser = words.add_parser(
            name, help=summary, description=summary, allow_abbrev=False
        )
        sub.add_argument("--json", action="store_true", help="one JSON object on stdout")
        sub.set_defaults(handler=("hil.commands.lab", f"{name}_command"), parser=sub)
        return sub

    listed = word("list", "List the places, their boards and who uses them.")
    listed.add_argument("filter", nargs="?", metavar="TAG=VALUE,...", help="only those that fit")
    serve = word("serve", "Offer boards of this machine to a lab until interrupted.")
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
    serve.add_argument("--seconds", type=_positive_float, metavar="S", help="stop after S seconds")
    reap = word("reap", "Give back places whose users are gone.")
    reap.add_argument("--seconds", type=_positive_float, metavar="S", help="look for S seconds")


def _add_board_words(commands: Any) -> None:
    """``hil board new``: the one word that writes a description."""
    text = "Descriptions of boards."
    board = commands.add_parser("board", help=text, description=text, allow_abbrev=False)
    words = board.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    summary = "Write a board description, from answers or from options."
    new = words.add_parser("new", help=summary, description=summary, allow_abbrev=False)
    new.add_argument("--json", action="store_true", help="one JSON object on stdout")
    new.set_defaults(handler=("hil.commands.describing", "new_command"), parser=new)
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


def _add_probe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--probe",
        metavar="UID",
        help="program through this debug probe (a part of its id is enough); `virtual` puts one on "
        "the board's QEMU machine",
    )


def _add_port(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--port", metavar="URL", help=text)


def _add_board(
    parser: argparse.ArgumentParser, device: bool = False, required: bool = True
) -> None:
    parser.add_argument(
        "--board", required=required, metavar="B", help="a board of `hil boards` or a file"
    )
    if device:
        parser.add_argument(
            "--runner",
            metavar="NAME",
            help="qemu, renode, pyocd or native, where a board has several",
        )
        _add_probe(parser)
        _add_port(
            parser,
            "use the firmware that runs at this serial port or pyserial URL; with --probe or "
            "--runner: the port of the board that is programmed",
        )
    parser.add_argument(
        "--transport",
        choices=("uart", "rtt"),
        help="the serial line: a UART, or RTT through the probe (default: the board's)",
    )
    if device:
        parser.add_argument(
            "--bulk",
            action="store_true",
            help="with RTT: read and write tensors in the board's memory through the probe",
        )
    parser.add_argument(
        "--workspace",
        choices=("own", "shared"),
        default="own",
        help="of several models: each its own (default), or all the same bytes",
    )
    _add_cpu(parser, "compile for this core instead of the board's")
    _add_compile_options(parser)


def _add_cpu(parser: Any, text: str) -> None:
    parser.add_argument("--cpu", metavar="CPU", help=text)


def _add_compile_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", metavar="N", help="the model's name in the C code")
    for option, choices, what in (
        ("--codegen", ("c", "llvm"), "form of the code (default: c)"),
        ("--api", ("unpacked", "packed"), "arguments of the operators (default: unpacked)"),
        ("--interface", ("c", "packed"), "entry points (default: c)"),
        ("--runtime", ("crt", "cpp"), "run time of TVM that the code is for (default: crt)"),
        ("--pools", ("internal", "external", "calls"), "where a run gets its memory from"),
        ("--constants", ("internal", "external"), "in the code (default), or the caller's"),
        ("--optimize", ("balanced", "speed", "size", "ram"), "goal (default: balanced)"),
    ):
        parser.add_argument(option, choices=choices, help=what)
    parser.add_argument(
        "--ram",
        type=_byte_count,
        metavar="LIMIT",
        help="the fastest program whose workspace takes at most this: bytes, 32K or 1M",
    )
    parser.add_argument(
        "--flash",
        type=_byte_count,
        metavar="LIMIT",
        help="the fastest program whose constants and code take at most this; measured where "
        "firmware is built, by estimate where it is not",
    )
    parser.add_argument(
        "--tuning", metavar="F.json", help="take kernels' costs from this log of `hil tune`"
    )
    parser.add_argument(
        "--fold-constant-channels",
        action=argparse.BooleanOptionalAction,
        help="leave out channels that are the same for every input (default: yes)",
    )
    parser.add_argument(
        "--memory",
        metavar="REGION[:BYTES],...",
        help="RAM regions of the board to plan pools in, the preferred first, with limits",
    )
    parser.add_argument(
        "--keep-inputs",
        action="store_true",
        default=None,
        help="with inputs in the workspace: a run leaves them as they are",
    )
    parser.add_argument(
        "--pin",
        action="append",
        metavar="TENSOR=[REGION:]OFFSET",
        help="an input or output lies so many bytes behind the workspace's start",
    )
    parser.add_argument(
        "--external",
        action="append",
        default=[],
        metavar="FILE.py[:FACTORY][,KEY=VALUE]...",
        help="hand parts of the model to this code generator; may be repeated",
    )


def _add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seed", type=_natural_int, default=0, metavar="S", help="of random inputs (default: 0)"
    )


def _positive_int(text: str) -> int:
    value = _natural_int(text)
    if value == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def _byte_count(text: str) -> int:
    count = parse_bytes(text)
    if count is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes such as 8192, 32K or 1M")
    return count


def _natural_int(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _positive_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def _version() -> str:
    try:
        return version("hil-harness")
    except PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
