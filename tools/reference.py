#!/usr/bin/env python3
"""Writes what the reference pages take from the program itself, between their marks.

The command line comes from its parser, the Python interface from its docstrings, operators from
their table, boards, ports and cores from their descriptions, the protocol from its definitions. The
pages are committed, so that the repository can be read without the site and a change of an
interface shows in the diff; a test fails when one is stale. ``--check`` only compares; its exit
code is 1 when a page differs.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import single_op
from marked import replaced, table

import hil
from hil.board import board_names, load_board
from hil.board.ports import (
    board_settings,
    chip_settings,
    derived_settings,
    port_description,
    port_names,
)
from hil.cli.command_line import build_parser
from hil.cli.parser import Parser
from hil.cli.render import memory_bytes, shown_by, size_text
from hil.link import protocol
from hil.results.schema import answer_schema, reference_page
from hilc.errors import ModelError
from hilc.external import EXTERNAL
from hilc.ir import DTYPES
from hilc.ops import OPS
from hilc.ops.attributes import describe_type
from hilc.ops.operands import ARITHMETIC
from hilc.support.option import options_of
from hilc.target import FEATURES, cpu_names, get_cpu

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"

# -- the command line --------------------------------------------------------------------------

#: Groups of options that argparse itself makes, whose members each command lists.
_OWN = ("options", "positional arguments", "commands")


def command_line() -> str:
    """Every command with its options; those that several commands share stand once, at the end."""
    parser = build_parser()
    parser.format_help()
    commands = [
        (" ".join(words), sub)
        for names in parser.sections.values()
        for name in names
        for words, sub in _with_commands((name,), _children(parser)[name])
    ]
    shared = _shared_options([sub for _, sub in commands])
    parts = [_sections(parser)]
    for name, sub in commands:
        parts += [f"## hil {name}", *_command(sub, shared)]
    for title, rows in shared.items():
        parts += [f"## {_title(title)}", table(["option", "meaning"], list(rows.items()))]
    return "\n\n".join(parts)


def _sections(parser: Parser) -> str:
    children = _children(parser)
    rows = [
        [title, f"[`hil {name}`](#hil-{name})", _escaped(str(children[name].description))]
        for title, names in parser.sections.items()
        for name in names
    ]
    return table(
        ["", "command", ""], [[row[0] if new else "", *row[1:]] for row, new in _new(rows)]
    )


def _new(rows: Sequence[Sequence[str]]) -> Iterator[tuple[Sequence[str], bool]]:
    """Each row, and whether its first column differs from the row's before."""
    before = None
    for row in rows:
        yield row, row[0] != before
        before = row[0]


def _children(parser: Parser) -> Mapping[str, Parser]:
    return parser._commands.choices if parser._commands else {}


def _with_commands(
    words: tuple[str, ...], parser: Parser
) -> Iterator[tuple[Sequence[str], Parser]]:
    yield words, parser
    for name, sub in _children(parser).items():
        yield from _with_commands((*words, name), sub)


def _groups(parser: Parser) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the groups of a parser's options: invocation and help, escaped for a table."""
    formatter = parser._get_formatter()
    for group in parser._action_groups:
        actions = [
            action
            for action in group._group_actions
            if action.help != argparse.SUPPRESS
            and not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
        ]
        if actions:
            title = str(group.title).lower()
            rows = {_invocation(a): _escaped(_help(formatter, a)) for a in actions}
            yield ("options" if title == "optional arguments" else title), rows


def _help(formatter: argparse.HelpFormatter, action: argparse.Action) -> str:
    return formatter._expand_help(action) if action.help else ""


def _invocation(action: argparse.Action) -> str:
    """Return an option as the help writes it, independently of Python's version."""
    value = action.metavar
    if value is None:
        value = f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest
        value = value if action.choices or not action.option_strings else value.upper()
    text = value if isinstance(value, str) else " ".join(value)
    if not action.option_strings:
        return f"`{text}`"
    flags = ", ".join(action.option_strings)
    return f"`{flags}`" if action.nargs == 0 else f"`{flags} {text}`"


def _shared_options(parsers: Sequence[Parser]) -> dict[str, dict[str, str]]:
    """By group, the options that several commands have with the same meaning."""
    seen: dict[str, list[tuple[str, str]]] = {}
    for parser in parsers:
        for title, rows in _groups(parser):
            if title not in _OWN:
                seen.setdefault(title, []).extend(rows.items())
    return {
        title: {flag: text for flag, text in rows if rows.count((flag, text)) > 2}
        for title, rows in seen.items()
        if any(rows.count(row) > 2 for row in rows)
    }


def _command(parser: Parser, shared: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    yield _escaped(str(parser.description))
    # Long usages are wrapped for a terminal.
    yield f"```text\nusage: {parser._short_usage()}\n```"
    if _children(parser):
        names = _children(parser)
        where = parser.prog.replace(" ", "-")
        yield "Commands: " + ", ".join(f"[`{name}`](#{where}-{name})" for name in names) + "."
    own: dict[str, str] = {}
    other = []
    for title, rows in _groups(parser):
        common = shared.get(title, {})
        own |= {flag: text for flag, text in rows.items() if common.get(flag) != text}
        if flags := [flag for flag, text in rows.items() if common.get(flag) == text]:
            short = ", ".join(re.sub(r"[ ,].*`$", "`", flag) for flag in flags)
            other.append(f"[{_title(title)}](#{_slug(_title(title))}): {short}.")
    if own:
        yield table(["argument", "meaning"], list(own.items()))
    yield from ["\n".join(f"- {line}" for line in other)] if other else []


def _title(group: str) -> str:
    return f"Options: {group}"


def _slug(heading: str) -> str:
    """Return the anchor that forges and the site give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _escaped(text: str) -> str:
    """Text for a table's cell; what stands in backticks is left alone."""
    pieces = re.split(r"(`[^`]*`)", " ".join(text.split()))
    for index in range(0, len(pieces), 2):
        pieces[index] = re.sub(r"([*_<>\[\]])", r"\\\1", pieces[index])
    return "".join(pieces).replace("|", "\\|")


# -- Python ------------------------------------------------------------------------------------

#: What users import, by module. Other names may change without notice.
PYTHON: Mapping[str, Sequence[str]] = {
    # `from hil import *` leaves Python's own `open` and `compile` alone.
    "hil": (*hil.__all__, "compile", "open"),
    "hil.device": ("Model", "RunResult", "Outputs", "Console", "FirmwareTest"),
    "hil.export": ("register_export", "ExportFormat", "Package"),
    "hil.oracle": ("reference_of", "expected_outputs"),
    "hil.samples": ("RandomSamples", "ArraySamples", "load_samples", "load_data", "DataSet")
    + ("Scaling",),
    "hil.history": ("History", "Entry", "history_path"),
    "hil.board": ("load_board", "board_names", "default_board", "Board", "MemoryRegion"),
    "hil.access": (
        *("register_runner", "Runner", "Running", "Resettable", "Need", "Connection"),
        *("register_flasher", "Flasher", "FlasherSession", "Flashed", "Core", "Setting"),
    ),
    "hil.cli.reports": ("register_report", "ReportFormat", "Outcome"),
    "hilc.onnx_backend": ("prepare", "HilRep"),
    "hil.errors": ("BoardError", "BuildError", "DeviceError", "HangError", "ProbeError")
    + ("FlashError", "LinkError", "NumericError"),
    "hilc": ("compile", "explain", "merge", "CompileOptions", "ModelLibrary", "Pin"),
    "hilc.codegen": ("Options",),
    "hilc.errors": ("HilError", "InputError", "ModelError", "UnsupportedError"),
    "hilc.memory.program": ("PoolSpec",),
    "hilc.target": ("add_cores", "cpu_names", "get_cpu", "Cpu"),
    "hilc.host": ("load", "build", "export_library", "load_module", "AotExecutorFactory"),
    "hilc.executor": ("Executor",),
    "hilc.compat.tvm.executor": ("AotModule",),
    "hilc.quantization": ("quantize", "QuantizedModel", "Report", "TensorNoise", "Accuracy"),
    "hilc.interpreter": ("run", "run_all"),
    "hilc.references": ("reference_names", "get_reference", "Reference"),
    "hilc.artifact.params": ("save_params", "load_params"),
    "hilc.external": ("ExternalCodegen", "ExternalModule", "Device", "RoundRobin")
    + ("single_nodes", "connected_groups"),
}


def python() -> str:
    """Return the public names of each module, from signatures and docstrings."""
    parts = []
    for module_name, names in PYTHON.items():
        module = importlib.import_module(module_name)
        parts += [f"## {module_name}", _docstring(module, only_first=True)]
        # Functions first: what a reader looks for.
        classes = {name for name in names if inspect.isclass(getattr(module, name))}
        for name in sorted(names, key=classes.__contains__):
            value = getattr(module, name)
            where = f"{module_name}.{name}"
            parts += _class(where, value) if inspect.isclass(value) else _function(where, value)
    return "\n\n".join(parts)


def _function(where: str, function: Any, level: str = "###", bound: bool = False) -> list[str]:
    name = where.rpartition(".")[2]
    signature = f"{name}{_signature(function, bound)}"
    return [f"{level} {where}", f"```text\n{signature}\n```", _docstring(function)]


def _class(where: str, cls: type) -> list[str]:
    parts = [f"### {where}"]
    if not getattr(cls, "_is_protocol", False) and not issubclass(cls, Exception):
        parts.append(f"```text\n{cls.__name__}{_signature(cls, False)}\n```")
    if is_dataclass(cls) and (cls.__doc__ or "").startswith(f"{cls.__name__}("):
        parts.append("")
    else:
        parts.append(_docstring(cls))
    if issubclass(cls, Exception):
        return [*parts[:1], f"A kind of `{cls.__bases__[0].__name__}`.", *parts[1:]]
    rows = []
    members = []
    fields = _fields(cls)
    for name, (annotation, comment) in fields.items():
        rows.append([f"`{name}`", f"`{annotation}`".replace("|", "\\|"), comment])
    for name, member in vars(cls).items():
        if name.startswith("_") and name != "__call__":
            continue
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if isinstance(plain, property | functools.cached_property):
            getter = plain.fget if isinstance(plain, property) else plain.func
            kind = str(inspect.signature(getter).return_annotation) if getter else ""
            rows.append([f"`{name}`", f"`{kind}`".replace("|", "\\|"), _line(getter)])
        elif inspect.isfunction(plain):
            bound = not isinstance(member, staticmethod)
            members += _function(f"{where}.{name}", plain, "####", bound)
    if rows:
        parts.append(table(["attribute", "type", "meaning"], rows))
    return [part for part in parts if part] + members


def _signature(function: Any, bound: bool) -> str:
    """Return a signature, one parameter a line where it is long; annotations as they were
    written.
    """
    signature = inspect.signature(function)
    words: list[str] = []
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    kinds = [p.kind for p in parameters]
    for index, parameter in enumerate(parameters):
        if parameter.kind == parameter.KEYWORD_ONLY and (
            index == 0 or kinds[index - 1] not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        ):
            words.append("*")
        if index and kinds[index - 1] == parameter.POSITIONAL_ONLY != parameter.kind:
            words.append("/")
        words.append(_parameter(parameter))
    if kinds and kinds[-1] == inspect.Parameter.POSITIONAL_ONLY:
        words.append("/")
    returned = signature.return_annotation
    arrow = f" -> {_annotation(returned)}" if returned is not signature.empty else ""
    if inspect.isclass(function):
        arrow = ""
    line = f"({', '.join(words)}){arrow}"
    if len(line) <= 72:
        return line
    return "(\n" + "".join(f"    {word},\n" for word in words) + f"){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    kind = parameter.kind
    stars = 1 if kind == parameter.VAR_POSITIONAL else 2 if kind == parameter.VAR_KEYWORD else 0
    text = "*" * stars + parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return text
    default = parameter.default
    # What has no literal: an empty mapping, a marker, a factory's.
    shown = "{}" if isinstance(default, Mapping) and not default else repr(default)
    return f"{text} = {'...' if shown.startswith('<') else shown}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else str(inspect.formatannotation(annotation))


def _fields(cls: type) -> dict[str, tuple[str, str]]:
    """Return the annotated attributes of a class's own body, with the ``#:`` comments before
    them, or the help that a field states.
    """
    stated = options_of(cls) if is_dataclass(cls) else {}
    source = inspect.getsource(cls)
    indent = len(source) - len(source.lstrip())
    lines = [line[indent:] for line in source.splitlines()]
    (body,) = ast.parse("\n".join(lines)).body
    assert isinstance(body, ast.ClassDef)
    fields = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if node.target.id.startswith("_"):
                continue
            comment: list[str] = []
            row = node.lineno - 2
            while row >= 0 and lines[row].strip().startswith("#:"):
                comment.insert(0, lines[row].strip()[2:].strip())
                row -= 1
            name = node.target.id
            text = stated[name].help if name in stated else _markdown(" ".join(comment))
            fields[name] = (ast.unparse(node.annotation), text.replace("|", "\\|"))
    return fields


def _line(thing: Any) -> str:
    """Return the first paragraph of a docstring, in a line."""
    text = inspect.getdoc(thing) or ""
    return " ".join(_markdown(text.partition("\n\n")[0]).split()).replace("|", "\\|")


def _docstring(thing: Any, only_first: bool = False) -> str:
    text = inspect.getdoc(thing) or ""
    return _markdown(text.partition("\n\n")[0] if only_first else text)


def _markdown(text: str) -> str:
    """reStructuredText, as far as the docstrings use it, as Markdown."""
    text = re.sub(r":\w+:`~[\w.]*?(\w+)`", r"`\1`", text)
    text = re.sub(r":\w+:`([^`]+)`", r"`\1`", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        if is_code and line.strip() and not line.startswith(" "):
            while lines[-1] == "":
                lines.pop()
            lines += ["```", ""]
            is_code = False
        if not is_code and line.endswith("::"):
            lines += [line[:-1].strip(":") and line[:-1], "", "```text"]
            is_code = True
        elif not (is_code and not line and lines[-1] == "```text"):
            lines.append(line[4:] if is_code else line)
    return "\n".join([*lines, "```"] if is_code else lines)


# -- operators ---------------------------------------------------------------------------------

#: Linear layers have no random instance there; each checks by the same function.


def operators() -> str:
    """Return the operators of the table, the types that each takes, and what their modules say."""
    modules: dict[Any, list[str]] = {}
    for name, op in OPS.items():
        if name != EXTERNAL:
            modules.setdefault(inspect.getmodule(op.infer), []).append(name)
    rows = [
        [f"[`{name}`](#{_slug(', '.join(names))})", ", ".join(_types(name))]
        for names in modules.values()
        for name in names
    ]
    parts = [table(["operator", "types of the input"], sorted(rows))]
    for module, names in modules.items():
        parts += [f"## {', '.join(names)}", _docstring(module), *_attributes(names)]
    return "\n\n".join(parts)


def _attributes(names: Sequence[str]) -> list[str]:
    """Return the attributes of operators of one module, a table for those that share a class."""
    sharing: dict[type, list[str]] = {}
    for name in names:
        if OPS[name].attribute_types:
            sharing.setdefault(OPS[name].attributes, []).append(name)
    parts = []
    for kind, operators in sharing.items():
        # What a class is derived from comes first.
        comments = {
            name: comment
            for cls in reversed(kind.__mro__)
            if cls is not object
            for name, (_, comment) in _fields(cls).items()
        }
        defaults = {field.name: field.default for field in fields(kind)}
        rows = [
            [
                f"`{name}`",
                describe_type(accepted),
                "required" if defaults[name] is MISSING else f"`{defaults[name]!r}`",
                comments[name],
            ]
            for name, accepted in OPS[operators[0]].attribute_types.items()
        ]
        others = len(operators) < len(names)
        parts += [
            f"Attributes of {', '.join(operators)}:" if others else "Attributes:",
            table(["attribute", "accepts", "default", "meaning"], rows),
        ]
    return parts


def _types(name: str) -> list[str]:
    """Return the element types of which some random instance of the operator is accepted."""
    if OPS[name].weights is not None:
        return [dtype for dtype in DTYPES if dtype in ARITHMETIC]
    return [dtype for dtype in DTYPES if _accepts(name, dtype)]


def _accepts(name: str, dtype: str) -> bool:
    for seed in range(8):
        try:
            made = single_op.random_op(np.random.default_rng(seed), name, dtype)
        except (ModelError, KeyError, AssertionError, ValueError, TypeError):
            continue
        # Some drafts take a type of their own choice.
        if any(tensor.dtype == dtype and tensor.data is None for tensor in made.ins):
            return True
    return False


# -- boards, cores and ports -------------------------------------------------------------------


def boards() -> str:
    """Every board, from its description alone."""
    rows = [
        [
            f"`{board.name}`",
            board.cpu.name,
            "-" if board.is_host else f"{board.clock_hz / 1e6:.4g} MHz",
            size_text(memory_bytes(board, "flash")),
            size_text(memory_bytes(board, "ram")),
            next(port.name for port in board.ports if "uart" in port.roles),
            ", ".join(f"`{name}`" for name in board.flashers) or "-",
            ", ".join(shown_by(board)),
        ]
        for board in map(load_board, board_names())
    ]
    header = ["board", "core", "clock", "flash", "RAM", "line", "flasher", "shown by"]
    return table(header, rows)


def cores() -> str:
    """Return the cores that the compiler knows, and what their features say."""
    rows = [
        [f"`{cpu.name}`", cpu.arch, ", ".join(sorted(cpu.features)), f"`{' '.join(cpu.cflags)}`"]
        for cpu in map(get_cpu, _shipped_cores())
    ]
    rows = [[cell if cell.strip("`") else "-" for cell in row] for row in rows]
    features = [[f"`{name}`", text] for name, text in FEATURES.items()]
    return "\n\n".join(
        (
            table(["core", "architecture", "features", "flags of the C compiler"], rows),
            table(["feature", "a core with it"], features),
        )
    )


def _shipped_cores() -> Sequence[str]:
    """Return the cores without those that the user has added."""
    return [name for name in cpu_names() if get_cpu(name).word == name]


def ports() -> str:
    """Every port of the firmware template with its settings."""
    rows = []
    for name, about in sorted(
        ((name, port_description(name)) for name in port_names()),
        key=lambda item: _role_order(item[1]),
    ):
        rows.append([f"`{name}`", ", ".join(about["provides"]), "", "", "", about["summary"]])
        rows += [
            ["", "", f"`{key}`", _place(name, key), str(spec.get("default", "")), spec["help"]]
            for key, spec in about.get("settings", {}).items()
        ]
    return table(["port", "role", "setting", "in", "default", "meaning"], rows)


def _place(port: str, setting: str) -> str:
    """Which file states a setting, or what it follows from."""
    if setting in board_settings(port):
        return "board"
    if setting in chip_settings(port):
        return "chip"
    return "pins" if "uart" in derived_settings(port)[setting] else "crystal"


def _role_order(about: Mapping[str, Any]) -> int:
    return ("core", "soc", "timer", "uart").index(about["provides"][0])


# -- the protocol ------------------------------------------------------------------------------


def layout(message: Any) -> str:
    """Return the fields of a message of the protocol, with their types."""
    return ", ".join(f"`{f.name}` {_field_type(f)}" for f in message.subcons) or "nothing"


def _field_type(field: Any) -> str:
    inner = getattr(field, "subcon", field)
    kind = type(inner).__name__
    if kind == "Const":
        return f"{inner.sizeof()} bytes" if isinstance(inner.value, bytes) else "u8"
    if kind == "Bytes":
        return f"{inner.sizeof()} bytes"
    if kind == "GreedyRange":
        return "u64..."
    if kind == "FormatField":
        letter = {"b": "i", "h": "i", "l": "i", "q": "i", "d": "f"}.get(inner.fmtstr[-1], "u")
        return f"{letter}{8 * inner.sizeof()}"
    return "bytes..."


def _layouts(messages: Mapping[Any, Any], what: str) -> str:
    rows = [[f"`{c.name}`", layout(m)] for c, m in messages.items()]
    return table([what, "fields"], rows)


def requests() -> str:
    return _layouts(protocol.REQUESTS, "request")


def replies() -> str:
    return _layouts(protocol.REPLIES, "reply")


def events() -> str:
    return _layouts(protocol.EVENTS, "event")


def statuses() -> str:
    rows = [[str(s.value), f"`{s.name}`", text] for s, text in protocol.STATUS_TEXT.items()]
    return table(["number", "name", "meaning; `{detail}` is the number that comes with it"], rows)


# -- pytest ------------------------------------------------------------------------------------


def pytest_options() -> str:
    """Return the options that the plugin adds to pytest."""
    rows = []
    for call in _calls("addoption"):
        flag = ast.literal_eval(call.args[0])
        words = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg in _SHOWN}
        shown = f"{flag} {words['metavar']}" if "metavar" in words else flag
        rows.append([f"`{shown}`", _escaped(words["help"])])
    return table(["option", "meaning"], rows)


def pytest_fixtures() -> str:
    """Return the fixtures that the plugin gives to tests."""
    rows = []
    for node in ast.walk(_plugin()):
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            if ast.unparse(call.func if call else decorator) != "pytest.fixture":
                continue
            scope = {k.arg: ast.literal_eval(k.value) for k in call.keywords} if call else {}
            text = " ".join(_markdown(ast.get_docstring(node) or "").split())
            name = scope.get("name", node.name)
            if not name.startswith("_"):
                rows.append([f"`{name}`", str(scope.get("scope", "function")), text])
    return table(["fixture", "scope", "value"], rows)


_SHOWN = ("metavar", "help")


def _plugin() -> ast.Module:
    return ast.parse((ROOT / "hil" / "pytest_plugin" / "__init__.py").read_text(encoding="utf-8"))


def _calls(method: str) -> Iterator[ast.Call]:
    for node in ast.walk(_plugin()):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == method:
            yield node


# -- pages -------------------------------------------------------------------------------------

#: What writes each marked part, by page and mark.
PARTS: Mapping[tuple[str, str], Callable[[], str]] = {
    ("command-line.md", "commands"): command_line,
    ("python.md", "python"): python,
    ("operators.md", "operators"): operators,
    ("boards.md", "boards"): boards,
    ("boards.md", "cores"): cores,
    ("ports.md", "ports"): ports,
    ("protocol.md", "requests"): requests,
    ("protocol.md", "replies"): replies,
    ("protocol.md", "events"): events,
    ("protocol.md", "statuses"): statuses,
    ("pytest.md", "options"): pytest_options,
    ("pytest.md", "fixtures"): pytest_fixtures,
    ("json.md", "answers"): lambda: reference_page().rstrip(),
    ("hil.schema.json", ""): lambda: json.dumps(answer_schema(), indent=1) + "\n",
}


def written(page: str) -> str:
    """Return the text of a page with its marked parts written anew."""
    text = (PAGES / page).read_text(encoding="utf-8")
    for (name, mark), make in PARTS.items():
        if name == page:
            # A file without marks is written whole.
            text = replaced(text, mark, make()) if mark else make()
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    args = parser.parse_args(arguments)
    stale = []
    for page in dict.fromkeys(page for page, _ in PARTS):
        path = PAGES / page
        text = written(page)
        if text != path.read_text(encoding="utf-8"):
            stale.append(page)
            if not args.check:
                path.write_text(text, encoding="utf-8")
    for page in stale:
        print(f"{'stale' if args.check else 'written'}: docs/reference/{page}")
    if stale and args.check:
        print("\nhint: run python tools/measure.py reference", file=sys.stderr)
    return 1 if stale and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
