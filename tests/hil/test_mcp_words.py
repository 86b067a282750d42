"""What a client of ``hil mcp`` gives never becomes an option of a command, in any argument."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError

import hil.cli.mcp_tools
from hil.cli.command_line import build_parser
from hil.cli.mcp_reach import Reach
from hil.cli.mcp_tools import Tools
from hil.cli.mcp_words import command_words
from hil.errors import HilError, InputError

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"

#: A call of each tool, with all arguments that are texts. Options of the compiler are added.
CALLS: dict[str, dict[str, Any]] = {
    "boards": {"name": "microbit"},
    "doctor": {},
    "compile": {"model": "m.tflite", "output": "o.tar", "board": "microbit", "options": {}},
    "explain": {"model": "m.tflite", "board": "microbit", "options": {}},
    "fit": {
        **{"model": "m.tflite", "board": "microbit", "cpu": "cortex-m4", "ram": "4K"},
        **{"flash": "1M", "options": {}},
    },
    "verify": {"model": "m.tflite", "board": "microbit", "options": {}},
    "diagnose": {"model": "m.tflite", "board": "microbit", "options": {}},
    "bench": {"model": "m.tflite", "board": "microbit", "options": {}},
    "evaluate": {
        **{"model": "m.tflite", "board": "microbit", "data": "d.npz", "labels": "y"},
        **{"metric": "auc", "min": "auc=0.5", "max": "auc=1", "classes": "a,b"},
        **{"output_tensor": "t", "mean": "1", "std": "2", "options": {}},
    },
    "console": {"model": "m.tflite", "board": "microbit", "options": {}},
    "flash": {"model": "m.tflite", "board": "real", "options": {}},
    "erase": {"board": "real"},
    "reset": {"board": "real"},
    "power": {"board": "real", "action": "on"},
}
OPTIONS = {
    **{"loop_bound": ["y=1"], "memory": "ram", "name": "n", "pin": ["x=0"], "shape": ["x=1,2"]},
    **{"signature": "s", "flash": "1M", "ram": "4K"},
}
#: Arguments of commands that are paths, beside the models.
PATHS = ("output", "data", "junit", "summary", "log", "tuning", "history")
#: Texts that a command line could take for options, and what is no text of an argument.
FLAGS = (
    *("--external=plug.py", "--opt=../secret", "--board=native", "--", "-", "-h", "-1"),
    *("--json", "--version", "@words", "x --force", "\n--force", "m\0", "\ud800", "", "--a,-b"),
)
#: Texts that lead out of the folder, and names of models.
OUTSIDE = (
    *("..", "../secret", "a/../../secret", "/etc/passwd", "link", "around", "loop", "in/x"),
    *("m=../secret", "m=--force", "m=link", "-q=m.tflite", "=m.tflite", "e=m.tflite"),
    "../labels.npy",
)
#: Arguments that may name a file.
NAMING = ("model", "output", "data", "labels", "classes", "name", "board", "cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    own = tmp_path / "project"
    (own / "in").mkdir(parents=True)
    for name in ("m.tflite", "--external=plug.py", "e=m.tflite"):
        shutil.copy(DIGITS, own / name)
    (own / "words").write_text("--force\n")
    (own / "labels.npy").write_bytes(b"")
    (tmp_path / "secret").write_text("")
    (own / "link").symlink_to(tmp_path / "secret")
    (own / "loop").symlink_to(own / "loop")
    (own / "in" / "x").symlink_to(tmp_path)
    (own / "around").mkdir()
    (own / "around" / "y").symlink_to(own / "in")
    return own


class Started:
    """The tools of a server, and the words of the command that each starts in place of it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._words: list[list[str]] = []
        self.server: MCPServer = Tools(Reach(folder.resolve(), frozenset({"real"})), 60).server()
        self._parsers: dict[str, Any] = {}

        async def answer(words: Sequence[str], *_: Any) -> dict[str, Any]:
            self._words.append(list(words))
            return {}

        monkeypatch.setattr(hil.cli.mcp_tools, "_answer_of", answer)

    async def words(self, tool: str, arguments: Mapping[str, Any]) -> list[str] | None:
        """The words that a call starts; None where the tool refuses it."""
        self._words.clear()
        try:
            await self.server.call_tool(tool, dict(arguments))
        except UnexpectedToolError:
            raise
        except ToolError:
            return None
        (words,) = self._words
        return words

    def parsed(self, words: Sequence[str]) -> dict[str, Any]:
        """What the command line makes of the words."""
        parser = self._parsers.setdefault(words[0], build_parser([words[0]]))
        args, unknown = parser.parse_known_args(words)
        assert unknown == []
        found = vars(args)
        found["given"] = sorted(found.get("given", ()))
        return dict(found)


@pytest.fixture
def started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Started:
    return Started(folder, monkeypatch)


def is_text(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("anyOf", [schema])
    return any(kind.get("type") == "string" and "enum" not in kind for kind in kinds)


def is_list(schema: Mapping[str, Any]) -> bool:
    return any(kind.get("type") == "array" for kind in schema.get("anyOf", [schema]))


def places(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], bool, bool]]:
    """The arguments of a tool that are texts or lists, from its schema, so that none is missed."""
    for name, known in schema["properties"].items():
        if name != "options" and (is_text(known) or is_list(known)):
            yield (name,), is_text(known), is_list(known)
    for options in schema.get("$defs", {}).values():
        for name, known in options["properties"].items():
            if is_text(known) or is_list(known):
                yield ("options", name), is_text(known), is_list(known)


def with_value(call: Mapping[str, Any], place: Sequence[str], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(dict(call))
    owner = changed if len(place) == 1 else changed["options"]
    owner[place[-1]] = value
    return changed


@pytest.mark.parametrize("tool", CALLS)
def test_no_text_becomes_an_option(tool: str, started: Started, folder: Path) -> None:
    """Each hostile text is refused, or is the value of the one argument in which it was given."""
    anyio.run(give_all, tool, started, str(folder.resolve()))


async def give_all(tool: str, started: Started, own: str) -> None:
    (schema,) = (
        known.parameters
        for known in started.server._tool_manager.list_tools()
        if known.name == tool
    )
    call = copy.deepcopy(CALLS[tool])
    found = list(places(schema))
    # One function makes the words of these options for all tools.
    found = [each for each in found if len(each[0]) == 1 or tool in ("compile", "fit")]
    if "options" in call:
        call["options"] = {p[1]: OPTIONS[p[1]] for p, _, _ in found if len(p) > 1}
    words = await started.words(tool, call)
    assert words is not None
    good = started.parsed(words)
    for place, takes_text, takes_list in found:
        first = OPTIONS[place[1]][0] if len(place) > 1 and takes_list else "m.tflite"
        for text in FLAGS + OUTSIDE * (place[0] in NAMING):
            for value in [text] * takes_text + [[first, text]] * takes_list:
                words = await started.words(tool, with_value(call, place, value))
                if words is not None:
                    check(started, good, words, own)


def check(started: Started, good: Mapping[str, Any], words: list[str], own: str) -> None:
    """Check that words differ from good ones in one argument, whose value may be wrong."""
    try:
        args = started.parsed(words)
    except HilError:
        return
    assert args.keys() == good.keys()
    assert len([name for name in good if args[name] != good[name]]) <= 1, words
    for path in [*args.get("models", []), *filter(None, map(args.get, PATHS))]:
        # NAME=path, or a path, which may have an equals sign, too.
        path = path if path.startswith("/") else path.partition("=")[2]
        assert path.startswith("/"), words
        assert os.path.commonpath([os.path.realpath(path), own]) == own, words


def test_every_tool_is_called(started: Started) -> None:
    assert [tool.name for tool in started.server._tool_manager.list_tools()] == list(CALLS)


@pytest.mark.parametrize(
    ("tool", "model", "fact"),
    [
        ("compile", "--external=plug.py,x", "'--external' cannot name a model"),
        ("verify", "--junit=victim.txt", "'--junit' cannot name a model"),
        ("verify", "x y=m.tflite", "'x y' cannot name a model"),
        ("verify", "m\n=m.tflite", r"'m\\n' cannot name a model"),
        ("verify", "m=../secret", "outside the folder"),
        ("verify", "around", "'x' in 'around' is a link that leads out"),
    ],
)
def test_words_of_models(started: Started, tool: str, model: str, fact: str) -> None:
    """A text beside a good model was taken as an option: it loaded code, and wrote files."""
    call = with_value(CALLS[tool], ["model"], ["m.tflite", model])
    with pytest.raises(ToolError, match=fact):
        anyio.run(started.server.call_tool, tool, call)


def test_words_of_good_calls(started: Started, folder: Path) -> None:
    own = str(folder.resolve())
    models = ["m.tflite", "a1=m.tflite", "--external=plug.py", "./e=m.tflite"]
    call: dict[str, Any] = {"model": models, "board": "microbit"}
    call["options"] = {"fold_constant_channels": False}
    assert anyio.run(started.words, "verify", call) == [
        *("verify", "--board=microbit", "--runner=qemu", "--no-fold-constant-channels", "--json"),
        *("--", f"{own}/m.tflite", f"a1={own}/m.tflite", f"{own}/--external=plug.py"),
        f"{own}/e=m.tflite",
    ]
    call = {"model": "m.tflite", "board": "microbit", "data": "d", "integers": True}
    call |= {"labels": "in/../labels.npy", "classes": "words", "min": ["0.5", "auc=1"]}
    words = anyio.run(started.words, "evaluate", call)
    assert words is not None
    assert words[3:-3] == [
        *(f"--data={own}/d", "--labels=./labels.npy", "--classes=./words", "--integers"),
        *("--min=0.5", "--min=auc=1"),
    ]


@pytest.mark.parametrize("name", ["core.toml", "../core.toml", "/x/core.toml", "--help", "cortex"])
def test_a_core_is_known_by_name(started: Started, name: str) -> None:
    """A description would be a file, and names programs of a toolchain."""
    with pytest.raises(ToolError, match="no core that is known by name"):
        anyio.run(started.server.call_tool, "fit", {"model": "m.tflite", "cpu": name})


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_no_process_takes(text: str) -> None:
    for options, positional in (({"--x": ["a", text]}, []), ({}, [text])):
        with pytest.raises(InputError, match="no argument of a command"):
            command_words("verify", options, positional)


def test_arguments_beyond_the_system(folder: Path) -> None:
    server = Tools(Reach(folder.resolve(), frozenset()), 60).server()
    call = {"model": "m.tflite", "board": "microbit", "options": {"signature": "s" * 1_000_000}}
    with pytest.raises(ToolError, match="give shorter ones"):
        anyio.run(server.call_tool, "verify", call)
