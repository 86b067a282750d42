"""Commands under limits of the system: descriptors, memory, processes, files, time, streams."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torture.campaign import Budget, Counts, Figures, Finding

TITLE = "Limits of the system"
ABOUT = """Commands of `hil` (help, compile, build, verify, bench, export, quantize, evaluate,
history, report and others) under `ulimit -n`, `-v`, `-u`, `-f`, `-s` and `-t`, under a umask of
000, 077 and 777, with a full or read-only disk, without HOME, TMPDIR or PATH, with closed streams,
and in the C locale with a path that is not ASCII. A finding is a traceback, "a bug in hil", an exit
code that the documents do not list or that means another thing (1 is for outputs that differ), a
failure without a message or a remedy, and a command that does not end."""

ROOT = Path(__file__).resolve().parents[3]
_DIGITS = ROOT / "examples" / "digits"
#: How long a command may take; one that takes longer does not end.
_LIMIT_S = 300.0
#: Exit codes of a command that did its work, or that says why not.
_OWN = {0, 2, 3, 4}
#: Another user, who may read what the superuser may; the superuser, whose files have permissions.
_NOBODY = 65534
_OTHER_USER = ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups",
               "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")  # fmt: skip
_WITH_PERMISSIONS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@dataclass(frozen=True)
class Condition:
    """What a command runs under."""

    #: The kind of limit, and its value.
    kind: str
    value: str = ""
    #: Shell commands that set it; ``"$@"`` is the command line.
    shell: str = 'exec "$@"'
    environment: Mapping[str, str | None] = field(default_factory=dict)
    #: Exit codes that it may cause beside those of the commands.
    codes: frozenset[int] = frozenset()
    #: Whether it leaves nowhere to write a message.
    is_mute: bool = False
    #: A prefix by which the superuser gets the limits of other users.
    unprivileged: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.kind} {self.value}".strip()


def limited(kind: str, *values: int, **options: object) -> Iterator[Condition]:
    """Yield a condition for each value of ``ulimit -kind``."""
    for value in values:
        shell = f'ulimit -{kind} {value} && exec "$@"'
        yield Condition(f"ulimit -{kind}", str(value), shell, **options)  # type: ignore[arg-type]


#: In a mount namespace of its own: ``{temporary}`` and the cache on a disk of 64 KiB.
_FULL = 'mount -t tmpfs -o size=64k none "$PLACE" && exec "$@"'
_READ_ONLY = 'mount -t tmpfs -o ro none "$PLACE" && exec "$@"'
#: The working directory is the full or read-only one; what the command reads lies in another.
_MOVE = 'cd "$PLACE/work";'
_KILLED = frozenset({128 + 9, -9})


def conditions(is_long: bool) -> list[Condition]:
    """Return the conditions: all of them, or a sample."""
    fine = is_long
    found = [
        Condition("none"),
        # With 4, Python's own start may fail, before any code of this project runs.
        *limited("n", *((5, 6, 7, 8, 9, 10, 12, 16, 24, 32, 64) if fine else (5, 8, 16))),
        *limited(
            "v",
            *(
                (30000, 50000, 100000, 150000, 200000, 300000, 400000, 600000, 800000, 1000000)
                + (1500000, 2000000, 3000000, 4000000)
                if fine
                else (50000, 100000, 300000)
            ),
        ),
        *limited("f", *((0, 1, 8, 64, 1024) if fine else (8,))),
        *limited("s", *((128, 256, 1024) if fine else (256,))),
        *limited("t", 1, codes=_KILLED),
        *limited("u", *((1, 2, 4, 8, 16) if fine else (2,)), unprivileged=_OTHER_USER),
        *(
            Condition(
                "umask", mask, f'umask {mask} && exec "$@"', unprivileged=_WITH_PERMISSIONS
            )
            for mask in (("000", "077", "777") if fine else ("777",))
        ),
        Condition("no HOME", environment={"HOME": None, "HIL_CACHE": None}),
        Condition("HOME is missing", environment={"HOME": "/nonexistent/home", "HIL_CACHE": None}),
        Condition("TMPDIR is missing", environment={"TMPDIR": "/nonexistent/folder"}),
        Condition("no PATH", environment={"PATH": ""}),
        Condition("closed streams", shell='exec "$@" <&- >&- 2>&-', is_mute=True),
        Condition("closed stdout", shell='exec "$@" >&-'),
        Condition("closed stderr", shell='exec "$@" 2>&-', is_mute=True),
        Condition("full stdout", shell='exec "$@" >/dev/full'),
        Condition("stdout is a closed pipe", shell='"$@" | true; exit ${PIPESTATUS[0]}',
                  codes=frozenset({141}), is_mute=True),
        Condition("C locale", environment={"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0",
                                           "PYTHONCOERCECLOCALE": "0"}),
    ]  # fmt: skip
    if can_mount():
        mounted = "exec unshare -rm bash -c '{}' sh \"$@\""
        for place in ("cache", "temporary", "work"):
            for what, shell in (("full", _FULL), ("read-only", _READ_ONLY)):
                own = shell.replace("$PLACE", f"$PLACE/{place}")
                if place == "work":
                    own = own.replace(" && exec", f" && {_MOVE} exec")
                found.append(Condition(f"{what} disk", place, mounted.format(own)))
    return found


def can_mount() -> bool:
    """Whether this user can make a mount namespace, as full and read-only disks need it."""
    words = ["unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=64k", "none", "/mnt"]
    try:
        return subprocess.run(words, capture_output=True).returncode == 0
    except OSError:
        return False


#: Commands, by a name; the files are those of :func:`_prepared`.
COMMANDS: Mapping[str, Sequence[str]] = {
    "help": ("--help",),
    "boards": ("boards",),
    "doctor": ("doctor",),
    "compile": ("compile", "ñ.tflite", "--cpu", "cortex-m4", "-o", "out.tar"),
    "build": ("build", "ñ.tflite", "--board", "microbit"),
    "verify native": ("verify", "ñ.tflite", "--board", "native", "--samples", "1"),
    "verify emulated": ("verify", "ñ.tflite", "--board", "mps2-an386", "--samples", "1"),
    "bench": ("bench", "ñ.tflite", "--board", "mps2-an386", "--history", "new.db"),
    "matrix": ("verify", "ñ.tflite", "--board", "native", "--board", "mps2-an386", "--samples", "1")
    + ("--jobs", "2", "--junit", "junit.xml"),
    "export": ("export", "ñ.tflite", "--build-system", "cmake", "--library", "Digits", "-o", "out"),
    "quantize": ("quantize", "float.onnx", "--calibration", "inputs.npz", "-o", "quantized.onnx"),
    "evaluate": ("evaluate", "ñ.tflite", "--board", "native", "--data", "samples.npz")
    + ("--labels", "labels.npy", "--samples", "3"),
    "history": ("history", "--history", "known.db"),
    "report": ("report", "--from", "bench.json", "-o", "page.html"),
}
#: Commands of the sample: one that computes nothing, one of the compiler, one with children.
SAMPLE = ("boards", "compile", "verify native")


def run(budget: Budget) -> Counts:
    """Run each command under each condition."""
    counts: Counter[tuple[str, str]] = Counter()
    findings: list[Finding] = []
    kinds: dict[str, None] = {}
    names = tuple(COMMANDS) if budget.is_long else SAMPLE
    with tempfile.TemporaryDirectory() as made, budget.until_stopped():
        place = Path(made)
        prepare(place)
        for condition in conditions(budget.is_long):
            for name in names:
                done = attempt(place, COMMANDS[name], condition)
                kinds[condition.kind] = None
                counts[condition.kind, "runs"] += 1
                counts[condition.kind, "done" if done.returncode == 0 else "refused"] += 1
                findings += (
                    Finding(f"hil {name}, {condition.name}: {what}", done.command)
                    for what in faults(done, condition)
                )
                print(f"{condition.name}: {name}: {done.line}", file=sys.stderr, flush=True)
    return Counts(
        [
            {"limit": kind, **{what: counts[kind, what] for what in ("runs", "done", "refused")}}
            for kind in kinds
        ],
        findings,
    )


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    command: str
    #: None if it did not end.
    returncode: int | None
    output: str
    errors: str

    @property
    def line(self) -> str:
        """The exit code, and the message in one line."""
        found = re.search(r"(?m)^error: (.*(?:\n.*)*)", self.errors)
        text = found[1] if found else self.errors[-300:]
        return f"{self.returncode} {' / '.join(filter(None, map(str.strip, text.splitlines())))}"


def faults(done: Done, condition: Condition) -> Iterator[str]:
    """Yield what is wrong with the end of a command that had nothing to compare."""
    code, text = done.returncode, done.errors
    if code is None:
        yield "it does not end"
        return
    if "Traceback (most" in text:
        yield "a traceback"
    if "bug in hil" in text:
        yield "it says that it has a bug"
    if code not in _OWN | condition.codes:
        yield f"exit code {code}"
    # What `hil doctor` misses is on stdout.
    if code in _OWN - {0} and not condition.is_mute and not done.output.strip():
        if "error: " not in text:
            yield "a failure without a message"
        elif "hint: " not in text:
            yield "a message without a remedy"


def prepare(place: Path) -> None:
    """Make the files that commands read, and a cache for each user."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper

    for name in ("work", "inputs", "cache", "temporary"):
        (place / name).mkdir()
    for name in ("work", "temporary"):
        (place / name).chmod(0o777)
    place.chmod(0o755)
    shutil.copy(_DIGITS / "digits.tflite", place / "inputs" / "ñ.tflite")
    shutil.copy(_DIGITS / "digits_test.npz", place / "inputs" / "samples.npz")
    shutil.copy(_DIGITS / "digits_labels.npy", place / "inputs" / "labels.npy")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])
    w = helper.make_tensor("w", TensorProto.FLOAT, [8, 4], np.linspace(-1, 1, 32))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [w])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9),
              place / "inputs" / "float.onnx")  # fmt: skip
    np.savez(
        place / "inputs" / "inputs.npz", x=np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    )
    words = ("bench", "ñ.tflite", "--board", "mps2-an386", "--history", "known.db", "--json")
    done = attempt(place, words, Condition("none"))
    if done.returncode:
        raise RuntimeError(f"the files cannot be prepared: {done.errors}")
    (place / "inputs" / "bench.json").write_text(done.output)
    shutil.copy(place / "work" / "known.db", place / "inputs" / "known.db")


def attempt(place: Path, words: Sequence[str], condition: Condition) -> Done:
    """Run ``hil`` in a folder with fresh copies of the inputs; return how it ended."""
    work = place / "work"
    _emptied(work)
    inputs = {path.name for path in (place / "inputs").iterdir()}
    cache = place / "cache"
    _emptied(place / "temporary")
    chosen: dict[str, str | None] = {
        **os.environ,
        "HIL_CACHE": str(cache),
        "TMPDIR": str(place / "temporary"),
        "PLACE": str(place),
        "HIL_CONFIG": str(place / "no-config.toml"),
        **condition.environment,
    }
    environment = {name: value for name, value in chosen.items() if value is not None}
    # Inputs that are no outputs are read where they are.
    given = [str(place / "inputs" / word) if word in inputs else word for word in words]
    command = [sys.executable, "-m", "hil", *given]
    command = ["/bin/bash", "-c", condition.shell, "sh", *command]
    if os.geteuid() == 0:
        is_other = condition.unprivileged == _OTHER_USER
        _give(place, _NOBODY if is_other else 0)
        if is_other:
            environment["HOME"] = str(work)
        command = [*condition.unprivileged, *command]
    shown = f"{condition.shell.replace(chr(36) + '@', '...')}: hil {' '.join(words)}"
    process = subprocess.Popen(
        command,
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output, errors = process.communicate()
        return Done(shown, None, output, errors)
    return Done(shown, process.returncode, output, errors)


def _emptied(folder: Path) -> None:
    """Remove what a command left, also where it took its own permissions."""
    for root, folders, _ in os.walk(folder):
        for name in folders:
            os.chmod(os.path.join(root, name), 0o700)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _give(place: Path, user: int) -> None:
    """Give the files to the user that runs the command."""
    for name in ("cache", "work", "inputs"):
        for path in (place / name, *(place / name).rglob("*")):
            os.chown(path, user, user)


def figures(counts: Counts) -> Figures:
    """Return how many commands ended well and how many said why not, by limit."""
    rows = [
        [row["limit"], f"{row['runs']:,}", f"{row['done']:,}", f"{row['refused']:,}"]
        for row in counts.rows
    ]
    return Figures(["limit", "commands", "done", "refused"], rows, counts.findings)
