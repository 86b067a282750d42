"""The parser of the command line: argparse, with the errors that this project has."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from hil.cli.byte_counts import parse_bytes

#: Whole numbers of the command line fit the types of C and numpy that they end up in.
_LARGEST = (1 << 31) - 1


#: What can tell more of flags that a command does not have.
_EXPLAINERS: dict[str, Callable[[str], Exception | None]] = {}


def explain_flags_of(command: str, explain: Callable[[str], Exception | None]) -> None:
    """Ask ``explain`` for the error of a flag that ``command``, or one below it, does not have."""
    _EXPLAINERS[command] = explain


class Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that usage errors look like every other error.

    An option whose value is stored may be given once: the last of two would win unseen. What is
    near to a word that is not known stands in the hint.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **settings})
        self.register("action", None, _StoreOnce)
        self.register("action", "store", _StoreOnce)
        self.register("action", "yes_no", _YesOrNoOnce)
        #: Commands below this one by section of the help; all in one where there are none.
        self.sections: Mapping[str, Sequence[str]] = {}
        self._commands: argparse._SubParsersAction[Parser] | None = None
        self._words: Sequence[str] = ()

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help and versions; unlike argparse's own, tells where that cannot be done."""
        if file is not None and file is not sys.stdout:
            super()._print_message(message, file)
            return
        from hil.cli.console import Console

        Console(False).line(message.removesuffix("\n"))

    def add_commands(self) -> argparse._SubParsersAction[Parser]:
        """Return the commands below this one; without any of them the parser's help is shown."""
        self._commands = self.add_subparsers(
            title="commands", metavar="COMMAND", parser_class=Parser
        )
        self.set_defaults(handler=None, parser=self)
        self.add_output_options()
        return self._commands

    def add_output_options(self) -> None:
        """Add the options that every command has, before its name or behind it."""
        group = self.add_argument_group("output")
        # The defaults are the whole program's: a command's would win over what stands before it.
        absent = argparse.SUPPRESS
        group.add_argument(
            "--json", action="store_true", default=absent, help="one JSON object on stdout"
        )
        group.add_argument(
            "-q",
            "--quiet",
            action="store_true",
            default=absent,
            help="on stderr only warnings and errors",
        )
        group.add_argument(
            "-v",
            "--verbose",
            action="count",
            default=absent,
            help="on stderr also what is started, and how long it takes",
        )

    def commands(self) -> Sequence[str]:
        """Return the names of the commands below this one."""
        return tuple(self._commands.choices) if self._commands else ()

    def lacking_command(self) -> Exception:
        """Return the error of a line that ends here."""
        from hilc.support.suggest import listed

        return usage_error(
            f"{self.prog} needs a command", f"choose {listed(self.commands(), 'or')}"
        )

    def error(self, message: str) -> NoReturn:
        # "--bord x" would else be told as "--board is required".
        self._check_options(self._words)
        raise usage_error(message, f"see `{self.prog} --help`")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._words = () if args is None else args
        return super().parse_known_args(args, namespace)

    def check_unknown(self, words: Sequence[str]) -> None:
        """Raise for the words that were left over, if there are any."""
        if not words:
            return
        self._check_options(words)
        raise usage_error(f"unrecognized arguments: {' '.join(words)}", f"see `{self.prog} --help`")

    def _check_options(self, words: Sequence[str]) -> None:
        """Raise for the first word that looks like an option and is none."""
        # Those of a command below are its own affair.
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
        """As argparse's, with what the user may have meant."""
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

    def _short_usage(self) -> str:
        """Return the command, what it needs, and that there are options: their list follows
        anyway.
        """
        options = [action for action in self._actions if action.option_strings]
        arguments = [action for action in self._actions if not action.option_strings]
        needed = [action for action in options if action.required]
        words = [_usage_of(action) for action in (*arguments, *needed)]
        return " ".join([self.prog, *words, "[OPTIONS]"]).replace("%", "%%")

    def format_help(self) -> str:
        """As argparse's, with a usage that is short; commands stand in their sections."""
        self.usage = self._short_usage()
        if not self.sections or self._commands is None:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        entries = {entry.dest: entry for entry in self._commands._get_subactions()}
        sections = {title: [entries[name] for name in s] for title, s in self.sections.items()}
        options = [action for action in self._actions if action.option_strings]
        for title, actions in {**sections, "options": options}.items():
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def _usage_of(action: argparse.Action) -> str:
    """Return the arguments of ``action`` as they are written."""
    name = str(action.metavar or action.dest)
    if action.option_strings:
        return f"{action.option_strings[0]} {name}"
    forms = {"+": f"{name}...", "*": f"[{name}...]", "?": f"[{name}]"}
    return forms.get(str(action.nargs), name)


class _StoreOnce(argparse.Action):
    """Stores the value of an option that may be given once."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        _note_given(namespace, self.dest, option)
        setattr(namespace, self.dest, values)


class _YesOrNoOnce(argparse.BooleanOptionalAction):
    """``--x`` or ``--no-x``, not both."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        _note_given(namespace, self.dest, option)
        super().__call__(parser, namespace, values, option)


def _note_given(namespace: argparse.Namespace, name: str, option: str | None) -> None:
    """Note that the option is given; raise where it was before."""
    if option is None:
        return  # an argument without a flag takes one place of the line
    given: dict[str, str] = vars(namespace).setdefault("given", {})
    if name in given:
        both = option if given[name] == option else f"{given[name]} and {option}"
        what = f"{option} is given twice" if both == option else f"{both} are both given"
        raise usage_error(what, "give one of them")
    given[name] = option


def usage_error(message: str, hint: str) -> Exception:
    """Return the command line itself is wrong."""
    # Not at the top: `hil --help` needs no errors, and their root is the compiler's.
    from hil.errors import UsageError

    return UsageError(message, hint)


class Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            text = f"hil {version('hil-harness')}"
        except PackageNotFoundError:
            text = "hil (not installed)"
        parser._print_message(f"{text}\n", sys.stdout)
        parser.exit()


# -- types of values ----------------------------------------------------------------------------


def natural_int(text: str) -> int:
    """Return a whole number, 0 or more."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    if len(text) > len(str(_LARGEST)) or int(text) > _LARGEST:
        raise argparse.ArgumentTypeError(f"{text} is too large: the largest is {_LARGEST}")
    return int(text)


def positive_int(text: str) -> int:
    """Return a whole number, 1 or more."""
    value = natural_int(text)
    if value == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def positive_float(text: str) -> float:
    """Return a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def byte_count(text: str) -> int:
    """``8192``, ``32K`` or ``1M``."""
    count = parse_bytes(text)
    if count is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of bytes such as 8192, 32K or 1M"
        )
    return count
