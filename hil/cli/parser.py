"""The parser of the command line: argparse with this project's usage errors."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

#: The largest whole number of an argument: it must fit the integer types of C and numpy.
_LARGEST = (1 << 31) - 1


#: Options that most users never need: the help of a command with many options leaves them out.
_RARE = frozenset(
    {
        "--allow-fallback",
        "--api",
        "--bench",
        "--bulk",
        "--checksums",
        "--codegen",
        "--constant",
        "--constants",
        "--dynamic",
        "--external",
        "--fold-constant-channels",
        "--history",
        "--include-dir",
        "--interface",
        "--jobs",
        "--keep-inputs",
        "--loop-bound",
        "--memory",
        "--name",
        "--no-history",
        "--pin",
        "--pools",
        "--quantize-inputs",
        "--restart",
        "--retries",
        "--runtime",
        "--separate",
        "--skip-too-large",
        "--source",
        "--style",
        "--summary",
        "--transport",
        "--tuning",
        "--workspace",
    }
)
#: A command with at most so many options shows all of them.
_FEW = 25
#: By command: functions that explain flags which the command does not have.
_EXPLAINERS: dict[str, Callable[[str], Exception | None]] = {}


def explain_flags_of(command: str, explain: Callable[[str], Exception | None]) -> None:
    """Ask ``explain`` for the error of an unknown flag of ``command`` or its subcommands."""
    _EXPLAINERS[command] = explain


class Parser(argparse.ArgumentParser):
    """argparse's parser, raising :class:`~hil.errors.UsageError` instead of exiting.

    A repeated option is an error, since the last value would silently replace the first. Hints
    suggest the known word nearest to an unknown one.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **settings})
        # "-2%" is a wrong value of an option; argparse takes it for an option, unlike "-2".
        self._negative_number_matcher = re.compile(r"-\.?[0-9]")
        self.register("action", None, _StoreOnce)
        self.register("action", "store", _StoreOnce)
        self.register("action", "yes_no", _YesOrNoOnce)
        #: Names of subcommands by section of the help; one section without a title by default.
        self.sections: Mapping[str, Sequence[str]] = {}
        self._commands: argparse._SubParsersAction[Parser] | None = None
        self._words: Sequence[str] = ()
        #: Options of release 0.1, or options with a value, and what to write now.
        self.renamed: dict[str, str] = {}
        #: Whether the command's results have report formats, also of plug-ins.
        self.has_reports = False

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help and versions; unlike argparse, raise if the stream cannot be written."""
        if file is not None and file is not sys.stdout:
            super()._print_message(message, file)
            return
        from hil.cli.console import Console

        Console(False).line(message.removesuffix("\n"))

    def add_commands(self) -> argparse._SubParsersAction[Parser]:
        """Return the subcommands' parser; without a subcommand, the parser prints its help."""
        self._commands = self.add_subparsers(
            title="commands", metavar="COMMAND", parser_class=Parser
        )
        self.set_defaults(handler=None, parser=self)
        self.add_output_options()
        return self._commands

    def add_output_options(self) -> None:
        """Add the options that every command accepts, before or after its name."""
        group = self.add_argument_group("output")
        # A default of the subcommand would overwrite a value given before the subcommand.
        absent = argparse.SUPPRESS
        group.add_argument(
            "--json",
            action="store_true",
            default=absent,
            help="one JSON object on stdout: short for --format json",
        )
        formats = (
            "text, json, html or in a plug-in's format" if self.has_reports else "text or json"
        )
        group.add_argument(
            "--format",
            default=absent,
            metavar="NAME",
            help=f"write the result as {formats} (default: text)",
        )
        group.add_argument(
            "-q",
            "--quiet",
            action="store_true",
            default=absent,
            help="print only warnings and errors on stderr",
        )
        group.add_argument(
            "-v",
            "--verbose",
            action="count",
            default=absent,
            help="print started programs and their times on stderr",
        )

    def commands(self) -> Sequence[str]:
        """Return the names of the subcommands."""
        return tuple(self._commands.choices) if self._commands else ()

    def command_in(self, words: Sequence[str]) -> str:
        """Return the command that a command line names, such as ``lab list``; empty for none."""
        for position, word in enumerate(words):
            if self._commands and word in self._commands.choices:
                sub: Parser = self._commands.choices[word]
                inner = sub.command_in(words[position + 1 :])
                # A group such as `hil lab` is no command.
                return f"{word} {inner}" * bool(inner) if sub._commands else word
            # Options before a command have no values.
            if not word.startswith("-"):
                break
        return ""

    def lacking_command(self) -> Exception:
        """Return the error of a command line that lacks the subcommand."""
        from hilc.support.suggest import listed

        return usage_error(
            f"{self.prog} needs a command", f"choose {listed(self.commands(), 'or')}"
        )

    def error(self, message: str) -> NoReturn:
        """Raise :class:`UsageError`: an unknown option if there is one, else ``message``."""
        # Without this check "--bord x" would be reported as "--board is required".
        self._check_options(self._words)
        raise usage_error(message, f"see `{self.prog} --help`")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse like argparse; keep the words, for :meth:`error`."""
        self._words = () if args is None else args
        return super().parse_known_args(args, namespace)

    def check_unknown(self, words: Sequence[str]) -> None:
        """Raise for unrecognized arguments, if there are any."""
        if not words:
            return
        self._check_options(words)
        raise usage_error(f"unrecognized arguments: {' '.join(words)}", f"see `{self.prog} --help`")

    def check_empty(self) -> None:
        """Raise for the first option that was given an empty value, as of a variable that is not
        set.
        """
        for position, word in enumerate(self._words):
            if word == "--":
                return
            flag, is_joined, value = word.partition("=")
            action = self._option_string_actions.get(flag)
            if action is None or action.nargs in (0, "?") or action.default == "":
                continue
            if not is_joined:
                value = "".join(self._words[position + 1 : position + 2])
            if value == "":
                raise usage_error(
                    f"{action.option_strings[0]} was given an empty value",
                    "give it a value, or leave the option out",
                )

    def _check_renamed(self, words: Sequence[str]) -> None:
        """Raise for the first option that has another name now."""
        for word, following in zip(words, [*words, ""][1:], strict=True):
            flag, joined, value = word.partition("=")
            if flag == "--":
                return
            for old in (flag, f"{flag} {value if joined else following}"):
                if old in self.renamed:
                    raise usage_error(f"{old} has another name here", f"write {self.renamed[old]}")

    def _check_options(self, words: Sequence[str]) -> None:
        """Raise for the first unknown option."""
        self._check_renamed(words)
        # The parser of the subcommand checks its own options.
        own = [] if self._commands else [word.partition("=")[0] for word in words]
        for flag in own:
            if flag == "--":
                return
            if not flag.startswith("--") or flag in self._option_string_actions:
                continue
            if error := self._explained(flag):
                raise error
            from hilc.support.suggest import nearest

            raise usage_error(
                f"unrecognized arguments: {flag}{nearest(flag, self._option_string_actions)}",
                f"see `{self.prog} --help`",
            )

    def _explained(self, flag: str) -> Exception | None:
        """Return the error of an unknown flag, with the commands that accept it."""
        for command, explain in _EXPLAINERS.items():
            if self.prog.startswith(f"hil {command}") and (error := explain(flag)):
                return error
        return None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise for an invalid choice, with the nearest valid one in the hint."""
        if action.choices is None or value in action.choices:
            return
        # Not at the top: it loads the compiler, which most command lines do not need.
        from hilc.support.suggest import listed, nearest

        choices = [str(choice) for choice in action.choices]
        if action is self._commands:
            what, hint = "command", f"see `{self.prog} --help`"
        else:
            what = "/".join(action.option_strings) or str(action.metavar or action.dest)
            hint = f"choose {listed(choices, 'or')}"
        raise usage_error(f"{what}: invalid choice: {value!r}{nearest(str(value), choices)}", hint)

    def add_help_all(self) -> None:
        """Add ``--help-all``; the help names it if it leaves options out."""
        text = "show all options, and exit" if self._rare_actions() else argparse.SUPPRESS
        self.add_argument("--help-all", action=_HelpAll, help=text)

    def _rare_actions(self) -> list[argparse.Action]:
        """Return the options that the help leaves out."""
        options = [action for action in self._actions if action.option_strings]
        if len(options) <= _FEW:
            return []
        return [action for action in options if _RARE.intersection(action.option_strings)]

    def _short_usage(self) -> str:
        """Return the command with its arguments and required options only."""
        options = [action for action in self._actions if action.option_strings]
        arguments = [action for action in self._actions if not action.option_strings]
        needed = [action for action in options if action.required]
        words = [_usage_of(action) for action in (*arguments, *needed)]
        return " ".join([self.prog, *words, "[OPTIONS]"]).replace("%", "%%")

    def format_help(self, every: bool = False) -> str:
        """Return argparse's help with the short usage, commands grouped by section; without rare
        options unless ``every`` is set.
        """
        self.usage = self._short_usage()
        left_out = [] if every else self._rare_actions()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for title, text, actions in self._help_sections():
            shown = [action for action in actions if action not in left_out]
            if shown:
                formatter.start_section(title)
                formatter.add_text(text)
                formatter.add_arguments(shown)
                formatter.end_section()
        if left_out:
            formatter.add_text(f"{len(left_out)} more options: {self.prog} --help-all")
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _help_sections(self) -> Iterator[tuple[str | None, str | None, Sequence[argparse.Action]]]:
        """Yield the title, the text and the options or commands of each section of the help."""
        if not self.sections or self._commands is None:
            for group in self._action_groups:
                yield group.title, group.description, group._group_actions
            return
        entries = {entry.dest: entry for entry in self._commands._get_subactions()}
        for title, names in self.sections.items():
            yield title, None, [entries[name] for name in names]
        yield "options", None, [action for action in self._actions if action.option_strings]


class _HelpAll(argparse.Action):
    """Print the help with every option."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        assert isinstance(parser, Parser)
        parser._print_message(parser.format_help(every=True), sys.stdout)
        parser.exit()


def _usage_of(action: argparse.Action) -> str:
    """Return the notation of ``action`` in the usage."""
    name = str(action.metavar or action.dest)
    if action.option_strings:
        return f"{action.option_strings[0]} {name}"
    forms = {"+": f"{name}...", "*": f"[{name}...]", "?": f"[{name}]"}
    return forms.get(str(action.nargs), name)


class _StoreOnce(argparse.Action):
    """Store the value of an option; raise if it was given before."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        _note_given(namespace, self.dest, option)
        setattr(namespace, self.dest, values)


class _YesOrNoOnce(argparse.BooleanOptionalAction):
    """``--x`` or ``--no-x``, at most one of them."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        _note_given(namespace, self.dest, option)
        super().__call__(parser, namespace, values, option)


def _note_given(namespace: argparse.Namespace, name: str, option: str | None) -> None:
    """Record that the option is given; raise if it was given before."""
    if option is None:
        return  # argparse itself rejects a repeated positional argument
    given: dict[str, str] = vars(namespace).setdefault("given", {})
    if name in given:
        both = option if given[name] == option else f"{given[name]} and {option}"
        what = f"{option} is given twice" if both == option else f"{both} are both given"
        raise usage_error(what, "give one of them")
    given[name] = option


def usage_error(message: str, hint: str) -> Exception:
    """Return a usage error."""
    # Not at the top: importing hil.errors loads the compiler.
    from hil.errors import UsageError

    return UsageError(message, hint)


class Version(argparse.Action):
    """Print the version, which is read only if this option is given."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            text = f"hil {version('hil-harness')}"
        except PackageNotFoundError:
            from hilc import __version__

            text = f"hil {__version__} (a clone, not installed)"
        parser._print_message(f"{text}\n", sys.stdout)
        parser.exit()


# -- types of values ----------------------------------------------------------------------------


def natural_int(text: str) -> int:
    """Parse a whole number of at least 0.

    Raise :class:`argparse.ArgumentTypeError` for any other text.
    """
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    if len(text) > len(str(_LARGEST)) or int(text) > _LARGEST:
        raise argparse.ArgumentTypeError(f"{text} is too large: the largest is {_LARGEST}")
    return int(text)


def positive_int(text: str) -> int:
    """Parse a whole number of at least 1.

    Raise :class:`argparse.ArgumentTypeError` for any other text.
    """
    if not (text.isascii() and text.isdecimal()) or not text.strip("0"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return natural_int(text)


def positive_float(text: str) -> float:
    """Parse a number above 0.

    Raise :class:`argparse.ArgumentTypeError` for any other text.
    """
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def number_list(text: str) -> tuple[float, ...]:
    """Parse numbers separated by commas.

    Raise :class:`argparse.ArgumentTypeError` for any other text.
    """
    try:
        values = tuple(float(word) for word in text.split(","))
    except ValueError:
        values = ()
    if not values or not all(abs(value) < float("inf") for value in values):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, or several: 0.5,0.5,0.5")
    return values


def byte_count(text: str) -> int:
    """Parse a number of bytes (:func:`~hilc.support.byte_counts.parse_bytes`).

    Raise :class:`argparse.ArgumentTypeError` for any other text.
    """
    # Not at the top: the main help loads nothing of the compiler.
    from hilc.support.byte_counts import BYTE_COUNTS, parse_bytes

    count = parse_bytes(text)
    if count is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes such as {BYTE_COUNTS}")
    return count


def limit(text: str) -> Any:
    """Parse ``2%``, ``512`` or ``4K`` as a :class:`hil.history.gate.Limit`.

    Raise :class:`argparse.ArgumentTypeError` for any other text.
    """
    # Not at the top: it loads the compiler.
    from hil.history.gate import parse_limit

    parsed = parse_limit(text)
    if parsed is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a limit of at least 0, such as 2%, 0, 512 or 4K"
        )
    return parsed
