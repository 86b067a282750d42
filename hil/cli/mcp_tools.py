"""The tools of ``hil mcp``, each a command of ``hil`` in a process of its own, without a shell.

This module needs the package ``mcp``.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import anyio
from anyio import to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from hil.cli.mcp_arguments import unknown_tool, wrong_arguments
from hil.cli.mcp_reach import Reach
from hil.cli.mcp_words import command_words
from hil.errors import HilError
from hil.firmware.sources import checked_name
from hil.support.process import python_module
from hil.support.restriction import restricted
from hilc import __version__
from hilc.options import CompileOptions
from hilc.support.byte_counts import BYTE_COUNT_PATTERN
from hilc.support.option import Option, flag_of, options_of
from hilc.support.process import kill_group, start

#: Time limit in seconds for the end of a command that is interrupted.
_ENDING_S = 20.0
#: Last characters of a command's stderr in the error of one without an answer.
_SHOWN = 2000
#: Commands at a time: each has a compiler, and perhaps an emulator.
_AT_A_TIME = 2

_INSTRUCTIONS = """\
Tools compile a trained model (TensorFlow Lite, ONNX, PyTorch) for a microcontroller, run it on an
emulated or a real board, and compare its outputs with a reference. Each returns the JSON answer of
a command of `hil`. Its exit_code is 0 if all is good, 1 if outputs differ or a limit is exceeded, 2
for bad input, 3 if the build failed, 4 if the board failed; an entry of `results` that failed has
an `error` with a hint. Paths are relative to the folder in which the server was started.
"""

Goal = Literal["speed", "balanced", "ram", "size"] | None
Models = Annotated[
    str | list[str],
    Field(
        description="a .tflite, .onnx or .pt2 file, or an archive if --allow-code permits it; "
        "several share one image"
    ),
]
Board = Annotated[str, Field(description="a board's name, which the tool `boards` lists")]
#: Options of the compiler that read other files or load code, and the one that tools name.
_NOT_OFFERED = ("inputs", "tuning", "externals", "optimize")


def _compiler_options() -> dict[str, Option]:
    """Return the options that tools offer, by the names of their parameters."""
    offered = {
        flag_of(name, stated).removeprefix("--").replace("-", "_"): stated
        for name, stated in options_of(CompileOptions).items()
        if stated.form is not None and name not in _NOT_OFFERED
    }
    return dict(sorted(offered.items()))


def _parameter(stated: Option) -> tuple[Any, Any]:
    """Return the type and the default of an option's parameter, as pydantic takes them."""
    kinds = {"switch": bool, "yes_no": bool, "repeated": list[str]}
    kind: Any = kinds.get(stated.form or "", str)
    if stated.choices:
        kind = Literal[stated.choices]
    pattern = BYTE_COUNT_PATTERN if stated.form == "bytes" else None
    return kind | None, Field(default=None, description=stated.help, pattern=pattern)


_parameters: dict[str, Any] = {n: _parameter(o) for n, o in _compiler_options().items()}
#: The options of the command line, as far as they read no file and load no code.
CompilerOptions: type[BaseModel] = create_model(
    "CompilerOptions", __config__=ConfigDict(extra="forbid"), **_parameters
)
#: Those of ``fit``, which looks for the others.
FitOptions: type[BaseModel] = create_model(
    "FitOptions",
    __config__=ConfigDict(extra="forbid"),
    **{
        n: p
        for n, p in _parameters.items()
        if n not in ("ram", "flash", "memory", "pin", "pools", "reference")
    },
)
Samples = Annotated[
    int | None, Field(description="the number of random samples; default: for about 5 s", ge=1)
]


Limits = Annotated[
    float | str | list[str] | None,
    Field(description="limits of metrics: 0.9 of the first one, or accuracy=0.9"),
]
Compiler = Annotated[
    CompilerOptions | None,  # type: ignore[valid-type]
    Field(description="further options of the compiler, for model files"),
]


class _Server(MCPServer):
    """Server with messages of its own on wrong arguments, in place of pydantic's."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self._limiter = anyio.CapacityLimiter(_AT_A_TIME)

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        tool = self._tool_manager.get_tool(name)
        if tool is None:
            names = [known.name for known in self._tool_manager.list_tools()]
            raise ToolError(unknown_tool(name, names))
        try:
            # All of it has its turn: what a tool checks may change while it waits.
            async with self._limiter:
                return await super().call_tool(name, arguments, context)
        except ToolError as error:
            wrong = error.__cause__
            if not isinstance(wrong, ValidationError):
                raise
            places = [each["loc"] for each in wrong.errors()]
            text = wrong_arguments(name, tool.parameters, arguments, places)
            raise ToolError(text) from None


class Tools:
    """The tools, and the server that offers them.

    ``reach`` is what they may use, ``timeout_s`` the time limit of each in seconds.
    """

    def __init__(self, reach: Reach, timeout_s: float) -> None:
        self._reach, self._timeout_s = reach, timeout_s

    def serve(self) -> None:
        """Serve the tools on stdin and stdout until stdin ends."""
        self.server().run("stdio")

    def server(self) -> MCPServer:
        """Return a server that offers the tools."""
        server = _Server(
            "hil", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING"
        )
        own = (self.boards, self.doctor, self.compile, self.explain, self.fit, self.verify)
        running = (self.diagnose, self.bench, self.evaluate, self.console)
        changing = (self.flash, self.erase, self.reset, self.power)
        for tool in (*own, *running, *changing):
            server.tool()(tool)
        for known in server._tool_manager.list_tools():
            # A misspelt argument must not be ignored: the default would be used in its place.
            known.fn_metadata.arg_model.model_config["extra"] = "forbid"
            known.fn_metadata.arg_model.model_rebuild(force=True)
            known.parameters["additionalProperties"] = False
        return server

    async def boards(self, name: str | None = None) -> dict[str, Any]:
        """List the known boards, or describe one."""
        named = [] if name is None else [self._allowed(self._reach.names, name)]
        return await self._run("boards", positional=named)

    async def doctor(self) -> dict[str, Any]:
        """Report which compilers, emulators, flashers, references and probes are there."""
        return await self._run("doctor")

    async def compile(
        self,
        model: Models,
        output: Annotated[str, Field(description="the archive (.tar) or folder to write")],
        board: Board,
        optimize: Goal = None,
        options: Compiler = None,
    ) -> dict[str, Any]:
        """Compile a model to C for a board; options: limits of workspace (ram) and flash, ..."""
        given = {"--output": self._path(output), **_compile(optimize, options)}
        return await self._described("compile", model, board, given)

    async def explain(
        self, model: Models, board: Board, optimize: Goal = None, options: Compiler = None
    ) -> dict[str, Any]:
        """Return a model's memory plan on a board, its kernels, and what less memory costs."""
        return await self._described("explain", model, board, _compile(optimize, options))

    async def fit(
        self,
        model: Models,
        board: Board | None = None,
        cpu: Annotated[str | None, Field(description="the core of a chip that is no board")] = None,
        ram: Annotated[
            str | None, Field(description="RAM of that chip", pattern=BYTE_COUNT_PATTERN)
        ] = None,
        flash: Annotated[
            str | None, Field(description="its flash", pattern=BYTE_COUNT_PATTERN)
        ] = None,
        options: Annotated[
            FitOptions | None,  # type: ignore[valid-type]
            Field(description="further options of the compiler"),
        ] = None,
    ) -> dict[str, Any]:
        """Return which boards hold a model, with which goal, and why others do not.

        By default it looks at all boards; or at one, or at a chip of a core and its memory.
        """
        given = _compile(None, options) | {"--ram": ram, "--flash": flash}
        given["--cpu"] = None if cpu is None else self._allowed(self._reach.core, cpu)
        return await self._described("fit", model, board, given)

    async def verify(
        self,
        model: Models,
        board: Board,
        optimize: Goal = None,
        samples: Samples = None,
        options: Compiler = None,
    ) -> dict[str, Any]:
        """Run a model on a board and compare every output with the reference."""
        given = {**_compile(optimize, options), "--samples": samples}
        return await self._on_board("verify", model, board, given)

    async def diagnose(
        self,
        model: Models,
        board: Board,
        optimize: Goal = None,
        samples: Samples = None,
        options: Compiler = None,
    ) -> dict[str, Any]:
        """Compare each layer with the reference: where outputs first differ, and how."""
        given = {**_compile(optimize, options), "--samples": samples, "--per-layer": True}
        return await self._on_board("verify", model, board, given)

    async def bench(
        self, model: Models, board: Board, optimize: Goal = None, options: Compiler = None
    ) -> dict[str, Any]:
        """Count an inference's instructions or cycles on a board, and a model's flash and RAM."""
        return await self._on_board("bench", model, board, _compile(optimize, options))

    async def evaluate(
        self,
        model: Models,
        board: Board,
        data: Annotated[str, Field(description="an NPZ, NPY or CSV file, or a folder of classes")],
        labels: Annotated[
            str | None, Field(description="the labels: an array, columns, or an NPY file")
        ] = None,
        metric: Annotated[
            str | list[str] | None,
            Field(description="accuracy (default), top5, auc, f1, mae or rmse"),
        ] = None,
        min: Limits = None,
        max: Limits = None,
        classes: Annotated[
            str | None, Field(description="names of the classes: A,B,..., or a file of them")
        ] = None,
        score: Literal["outputs", "reconstruction"] | None = None,
        output_tensor: Annotated[str | None, Field(description="the evaluated output")] = None,
        samples: Annotated[
            int | None, Field(description="the number of samples to draw; default: all", ge=1)
        ] = None,
        mean: Annotated[str | None, Field(description="subtracted: M, or one a channel")] = None,
        std: Annotated[str | None, Field(description="the divisor after that: S")] = None,
        integers: Annotated[
            bool, Field(description="whether the values are quantized already")
        ] = False,
        optimize: Goal = None,
        options: Compiler = None,
    ) -> dict[str, Any]:
        """Measure a model's accuracy on a board over labelled data."""
        given = {"--data": self._path(data), **_compile(optimize, options)}
        if labels is not None:
            is_file = labels.lower().endswith(".npy")
            given["--labels"] = self._text_or_file(labels, is_file)
        if classes is not None:
            given["--classes"] = self._text_or_file(classes, "," not in classes)
        given |= {"--score": score, "--mean": mean, "--std": std, "--samples": samples}
        given |= {"--output-tensor": output_tensor, "--integers": integers}
        given |= {"--metric": metric, "--min": min, "--max": max}
        return await self._on_board("evaluate", model, board, given)

    async def console(
        self,
        model: Models,
        board: Board,
        optimize: Goal = None,
        options: Compiler = None,
        seconds: Annotated[float, Field(description="how long to listen", gt=0, le=300)] = 5.0,
    ) -> dict[str, Any]:
        """Start a model's firmware; return the logs, faults and console lines of its board."""
        given = {**_compile(optimize, options), "--seconds": seconds}
        return await self._on_board("monitor", model, board, given)

    async def flash(
        self, model: Models, board: Board, optimize: Goal = None, options: Compiler = None
    ) -> dict[str, Any]:
        """Program a real board with a model's firmware and reset it. Needs --allow."""
        given = {**self._changed(board), **_compile(optimize, options)}
        return await self._run("flash", given, self._models(model))

    async def erase(self, board: Board) -> dict[str, Any]:
        """Erase all flash of a real board. Needs --allow."""
        return await self._run("erase", self._changed(board))

    async def reset(self, board: Board) -> dict[str, Any]:
        """Restart a real board. Needs --allow."""
        return await self._run("reset", self._changed(board))

    async def power(self, action: Literal["on", "off", "cycle"], board: Board) -> dict[str, Any]:
        """Switch the supply of a real board, by the switch that the user configured. Needs --allow.

        cycle: off, and on after a pause.
        """
        return await self._run("power", self._changed(board), [action])

    async def _on_board(
        self, command: str, model: Models, board: Board, given: Mapping[str, object]
    ) -> dict[str, Any]:
        """Run a command that runs a model on a board."""
        on = self._allowed(self._reach.uses, board)
        return await self._run(command, {**on, **given}, self._models(model))

    async def _described(
        self, command: str, model: Models, board: Board | None, given: Mapping[str, object]
    ) -> dict[str, Any]:
        """Run a command that takes a model, and of a board the description."""
        known = None if board is None else self._allowed(self._reach.names, board)
        return await self._run(command, {"--board": known, **given}, self._models(model))

    def _changed(self, board: Board) -> dict[str, object]:
        return {"--board": self._allowed(self._reach.changes, board)}

    def _models(self, paths: Models) -> list[str]:
        given = [paths] if isinstance(paths, str) else paths
        if not given:
            raise ToolError("no model is given: give a path, or several")
        return [self._model(path) for path in given]

    def _model(self, text: str) -> str:
        """Return the word of a model, a path or NAME=path: both readings are within reach."""
        path = str(self._allowed(self._reach.model, text))
        name, separator, rest = text.partition("=")
        if not separator or os.path.exists(path):
            return path
        return f"{self._allowed(checked_name, name)}={self._allowed(self._reach.model, rest)}"

    def _text_or_file(self, text: str, is_file: bool) -> str:
        """Return a text that some commands read as a file: as a path it is within reach, too.

        A file's path is relative, since the folder's may hold a comma, which separates texts.
        """
        path = self._path(text)
        return f"./{os.path.relpath(path, self._reach.folder)}" if is_file else text

    def _path(self, text: str) -> str:
        return str(self._allowed(self._reach.path, text))

    def _allowed(self, check: Callable[..., Any], *values: Any) -> Any:
        """Return what ``check`` returns; its error is the tool's."""
        try:
            return check(*values)
        except HilError as error:
            raise ToolError(f"{error.fact}: {error.hint}" if error.hint else error.fact) from error

    async def _run(
        self,
        command: str,
        options: Mapping[str, object] | None = None,
        positional: Sequence[str] = (),
    ) -> dict[str, Any]:
        words = self._allowed(command_words, command, options, positional)
        return await _answer_of(words, self._reach, self._timeout_s)


def _compile(goal: Goal, options: BaseModel | None) -> dict[str, object]:
    """Return the compiler's options that were given, as the command line names them."""
    given: dict[str, object] = {"--optimize": goal}
    for name, value in (options.model_dump(exclude_none=True) if options else {}).items():
        flag = name.replace("_", "-")
        if value is False and _is_yes_no(name):
            given[f"--no-{flag}"] = True
        else:
            given[f"--{flag}"] = value
    return given


def _is_yes_no(name: str) -> bool:
    return _compiler_options()[name].form == "yes_no"


async def _answer_of(words: Sequence[str], reach: Reach, timeout_s: float) -> dict[str, Any]:
    """Return the JSON answer of a command.

    Raise ToolError if it takes longer than ``timeout_s`` seconds, or gives no answer. The command
    has ended when this returns, also if the call is cancelled.
    """
    try:
        # It ends with this process, however that ends.
        process = start(
            python_module("hil", *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=reach.folder,
            # git runs programs that the configuration of the folder's repository names.
            env=restricted(
                {**os.environ, "GIT_DIR": os.devnull}, reach.folder, with_code=reach.with_code
            ),
        )
    except OSError as error:
        if error.errno != errno.E2BIG:
            raise
        length = sum(map(len, words))
        raise ToolError(
            f"hil {words[0]} has arguments of {length} letters, which is more than this system "
            "takes: give shorter ones"
        ) from None
    output = errors = b""
    try:
        with anyio.move_on_after(timeout_s) as limit:
            output, errors = await to_thread.run_sync(process.communicate, abandon_on_cancel=True)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(_end, process)
    if limit.cancelled_caught:
        raise ToolError(
            f"hil {words[0]} takes longer than {timeout_s:g} s: start hil mcp with --timeout S"
        )
    try:
        answer = json.loads(output)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        shown = errors.decode(errors="replace")[-_SHOWN:]
        raise ToolError(f"hil {words[0]} ended with {process.returncode}, no answer: {shown}")
    return answer


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a command that still runs, so that it releases its board; kill it if it stays."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            kill_group(process)
    process.wait()
