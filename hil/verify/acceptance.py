"""Acceptance of a board: what `hil board prove` checks of one, real or emulated.

The image has three kinds of models: a small classifier of digits, one that stops the firmware with
an undefined instruction, and those of the caller.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import hilc
from hil.energy import opened_meter
from hil.errors import DeviceError, HilError, InputError
from hil.firmware.build import build
from hil.firmware.toolchain import compiler_version
from hil.link.fault import FaultError
from hil.results.boards import ProofCheck, ProofEntry
from hil.verify.bench import bench
from hil.verify.comparison import compare
from hil.verify.cycles import check_estimable, estimate_cycles
from hil.verify.oracle import reference_of
from hil.verify.samples import StandardSamples, random_sample
from hilc.artifact.library import ModelLibrary, Module
from hilc.support.resources import data_file

if TYPE_CHECKING:
    from hil.board import Board
    from hil.device import Device

Figures = Mapping[str, float | int | str]

#: Samples of each model that are compared.
_SAMPLES: Final = 12
#: Messages over the link, and the largest of them in bytes.
_MESSAGES, _MESSAGE_MAX = 200, 2000
#: Seconds of inferences by which the timer is compared with this machine's clock, and the ratio by
#: which they may differ: an internal oscillator is within 3 %.
_TIMED_S, _TIMER_ERROR = 2.0, 0.05
#: Repetitions of an inference in one request.
_REPEAT_MAX: Final = 100_000
_DIGITS, _FAULTY = "digits", "faulty"


@dataclass(frozen=True)
class _NotRun(Exception):
    """A check that does not apply."""

    why: str


class _Proof:
    """The checks of one board, in order."""

    def __init__(self, progress: Callable[[ProofCheck], None]) -> None:
        self.checks: list[ProofCheck] = []
        #: That of the worst error.
        self.exit_code = 0
        self._is_lost = False
        self._progress = progress

    def run(self, name: str, check: Callable[[], tuple[str, Figures]]) -> bool:
        """Run a check; return whether it has not failed. Its errors are its result."""
        try:
            if self._is_lost:
                raise _NotRun("the board was lost")
            text, figures = check()
            found = ProofCheck(name, "passed", text, figures)
        except _NotRun as reason:
            found = ProofCheck(name, "not run", reason.why)
        except HilError as error:
            hint = f" ({error.hint})" if error.hint else ""
            found = ProofCheck(name, "failed", f"{error.fact}{hint}")
            self.exit_code = max(self.exit_code, error.exit_code)
            self._is_lost = isinstance(error, DeviceError) and error.is_lost
        self.checks.append(found)
        self._progress(found)
        return found.status != "failed"


def prove(
    board: Board,
    models: Sequence[ModelLibrary],
    opened: Callable[[Sequence[ModelLibrary]], Any],
    *,
    is_emulated: bool,
    energy: str | None = None,
    progress: Callable[[ProofCheck], None] = lambda check: None,
) -> tuple[ProofEntry, int]:
    """Return what was found about a board, and the exit code of the worst failure.

    ``opened`` returns a context with the device that runs libraries; ``models`` are compared beside
    the digits, layer by layer. ``energy`` names a meter. ``progress`` is called after each check.

    Raise :class:`~hil.errors.HilError` if the firmware cannot be built or the board not be started;
    the failure of a check is in the result.
    """
    libraries = [_digits(board, _DIGITS), *models]
    image = [*libraries, _faulty(board)]
    firmware = build(image, board)
    proof = _Proof(progress)
    with ExitStack() as stack:
        recorder = stack.enter_context(opened_meter(energy)) if energy is not None else None
        device: Device = stack.enter_context(opened(image))
        checks = _Checks(board, device, libraries, is_emulated)
        proof.run("identity", checks.identity)
        proof.run("link", checks.link)
        # A machine that is busy may delay an emulated board; a real one that had to be recovered
        # is found by the last check.
        for library in libraries:
            for module in library.modules:
                proof.run(f"exact {module.name}", partial(checks.exact, library, module))
        repeated = device.repeated
        proof.run("timer", partial(repeated, checks.timer))
        proof.run("counts", partial(repeated, checks.counts))
        proof.run("estimate", checks.estimate)
        proof.run("stack", partial(repeated, checks.stack))
        if recorder is not None:
            proof.run("energy", partial(checks.energy, recorder))
        proof.run("fault", partial(repeated, checks.fault))
        proof.run("reset", partial(repeated, checks.reset))
        proof.run("recoveries", checks.recoveries)
        source = device.source
    statuses = [check.status for check in proof.checks]
    entry = ProofEntry(
        board=board.name,
        description=board.description,
        cpu=board.cpu.name,
        clock_hz=board.clock_hz,
        source=source,
        emulated=is_emulated,
        proven="failed" not in statuses,
        date=datetime.now().astimezone().isoformat(timespec="seconds"),
        versions={"hil": hilc.__version__, "compiler": compiler_version(firmware.board)},
        checks=tuple(proof.checks),
    )
    return entry, proof.exit_code


class _Checks:
    def __init__(
        self, board: Board, device: Device, libraries: Sequence[ModelLibrary], is_emulated: bool
    ) -> None:
        self._board, self._device, self._is_emulated = board, device, is_emulated
        self._libraries = libraries
        self._count: int | None = None

    def identity(self) -> tuple[str, Figures]:
        """Check that the answers come from the board and the image that were chosen."""
        device, firmware = self._device, self._device.firmware
        hello = device.hello
        if firmware is None or hello.build_id != firmware.build_id:
            raise DeviceError(f"the board runs the image {hello.build_id}, not the one built now")
        if not device.is_proven:
            raise _NotRun("the port alone names no board: give its --probe or --runner")
        return (
            f"image {hello.build_id}, {device.source}",
            {"protocol": hello.protocol, "flash_bytes": firmware.sizes.flash_bytes},
        )

    def link(self) -> tuple[str, Figures]:
        """Send random bytes to the board and back."""
        rng, device = random.Random(1), self._device
        repeated, damaged = device.repeated_requests, device.memory().bad_frames
        total, start = 0, time.monotonic()
        for _ in range(_MESSAGES):
            sent = rng.randbytes(rng.randint(1, _MESSAGE_MAX))
            if device.echo(sent) != sent:
                raise DeviceError(f"{len(sent)} bytes came back changed, with valid checksums")
            total += len(sent)
        seconds = time.monotonic() - start
        repeated = device.repeated_requests - repeated
        damaged = device.memory().bad_frames - damaged
        rate = total / seconds
        return (
            f"{total:,} bytes each way at {rate / 1e3:.1f} KB/s; {repeated} of {_MESSAGES} "
            f"requests repeated, {damaged} damaged frames",
            {
                "bytes_each_way": total,
                "bytes_per_s": round(rate),
                "repeated_requests": repeated,
                "damaged_frames": damaged,
            },
        )

    def exact(self, library: ModelLibrary, module: Module) -> tuple[str, Figures]:
        """Compare every layer of a model with the reference."""
        oracle = reference_of(library, module)
        report = compare(
            self._device[module.name],
            StandardSamples(module.inputs, 0, _SAMPLES),
            oracle,
            board=self._board.name,
            per_layer=True,
            repeated=self._device.repeated,
        )
        report.check()
        return (
            f"{report.samples} samples, every layer equal to the reference {oracle.name}",
            {"samples": report.samples, "layers": len(module.layers)},
        )

    def timer(self) -> tuple[str, Figures]:
        """Compare the board's time base with this machine's clock."""
        if self._is_emulated:
            raise _NotRun("an emulated timer counts instructions, not time")
        model = self._device[_DIGITS]
        model.run(1)
        once = self._timed(1)[0]
        repeat = max(2, min(_REPEAT_MAX, int(_TIMED_S / max(once, 1e-6))))
        # The difference has no share of the link.
        (short, host_short), (long, host_long) = self._timed(repeat // 2), self._timed(repeat)
        device_s, host_s = long - short, host_long - host_short
        error = device_s / host_s - 1
        figures = {"board_s": round(device_s, 4), "host_s": round(host_s, 4)}
        if abs(error) > _TIMER_ERROR:
            raise DeviceError(
                f"the board's timer counts {device_s:.3f} s in {host_s:.3f} s",
                f"compare the board's clock with clock_hz of its file, {self._board.clock_hz}",
            )
        return f"{device_s:.3f} s in {host_s:.3f} s of this machine ({error:+.2%})", figures

    def _timed(self, repeat: int) -> tuple[float, float]:
        """Return the board's seconds of inferences, and this machine's of the request."""
        start = time.monotonic()
        ticks = self._device[_DIGITS].run(repeat).ticks
        return ticks / self._device.hello.ticks_hz, time.monotonic() - start

    def counts(self) -> tuple[str, Figures]:
        """Count an inference several times."""
        (module,) = self._libraries[0].modules
        report = bench(self._device, module, runs=5)
        self._count = report.per_inference
        spread = max(report.counts) - min(report.counts)
        return (
            f"{report.per_inference:,} {report.counter} an inference, {spread:,} between runs",
            {
                report.counter: report.per_inference,
                "spread": spread,
                "stack_peak_bytes": report.stack_peak_bytes,
            },
        )

    def estimate(self) -> tuple[str, Figures]:
        """Compare counted cycles with the estimate by the core's table."""
        if self._device.counter != "cycles":
            raise _NotRun("no cycles were counted")
        if self._count is None:
            raise _NotRun("nothing was counted")
        (module,) = self._libraries[0].modules
        try:
            check_estimable(self._board)
        except InputError as error:
            raise _NotRun(error.fact) from error
        sample = random_sample(module.inputs, 0, 0)
        estimate = estimate_cycles(
            self._board, self._libraries[:1], module, seed=0, workspace="own", sample=sample
        )
        low, high = estimate.cycles
        return (
            f"{self._count:,} cycles, estimated {low:,} to {high:,}",
            {"cycles": self._count, "estimated_from": low, "estimated_to": high},
        )

    def stack(self) -> tuple[str, Figures]:
        """Check that the stack was painted, and its peak within the bound of the build."""
        memory = self._device.memory()
        if not 0 < memory.stack_peak_bytes < memory.stack_bytes:
            raise DeviceError(
                f"the stack's peak is {memory.stack_peak_bytes} of {memory.stack_bytes} bytes",
                "raise stack_bytes in the board's file",
            )
        return (
            f"{memory.stack_peak_bytes:,} of {memory.stack_bytes:,} bytes at most",
            {"stack_peak_bytes": memory.stack_peak_bytes, "stack_bytes": memory.stack_bytes},
        )

    def energy(self, recorder: Any) -> tuple[str, Figures]:
        """Record the energy of an inference."""
        (module,) = self._libraries[0].modules
        report = bench(self._device, module, recorder=recorder)
        if report.energy is None:
            raise DeviceError("the meter recorded nothing", "see hil bench --energy")
        joules = report.energy.per_inference_j
        return f"{joules * 1e6:.2f} uJ an inference", {"microjoules": round(joules * 1e6, 3)}

    def fault(self) -> tuple[str, Figures]:
        """Stop the firmware by an undefined instruction; check that the report names its place."""
        try:
            self._device[_FAULTY].run(1)
        except FaultError as error:
            place = error.place.function if error.place is not None else ""
            if _FAULTY not in place:
                raise DeviceError(
                    f"the fault was reported at {place or 'an unknown place'}: {error.fact}"
                ) from error
            return f"{error.fault.kind_text} in {place}", {"function": place}
        raise DeviceError("an undefined instruction caused no fault")

    def reset(self) -> tuple[str, Figures]:
        """Restart the firmware, and run a model again."""
        self._device.reset()
        sent = bytes(range(64))
        if self._device.echo(sent) != sent:
            raise DeviceError("the restarted firmware does not echo what it is sent")
        self._device[_DIGITS].run(1)
        return "the firmware restarted, and computed again", {}

    def recoveries(self) -> tuple[str, Figures]:
        """Check that the board did all of it without being recovered."""
        recovery = self._device.recovery
        attempts = [] if recovery is None else recovery.attempts
        if attempts and not self._is_emulated:
            steps = "; ".join(map(str, attempts))
            raise DeviceError(f"the board was recovered {len(attempts)} times: {steps}")
        return f"{len(attempts)}", {"recoveries": len(attempts)}


def _digits(board: Board, name: str) -> ModelLibrary:
    model = data_file("examples/digits/digits.tflite")
    return hilc.compile(model, cpu=board.cpu.name, name=name)


def _faulty(board: Board) -> ModelLibrary:
    """Return a library whose entry point executes an undefined instruction."""
    library = _digits(board, _FAULTY)
    entry = f"int32_t tvmgen_{_FAULTY}___tvm_main__(".encode()
    files = dict(library.files)
    for path, text in library.files.items():
        start = text.find(entry)
        body = text.find(b"{", start)
        if start >= 0 and path.endswith(".c") and body < text.find(b";", start):
            files[path] = text[: body + 1] + b"\n    __builtin_trap();" + text[body + 1 :]
            return replace(library, files=files)
    raise AssertionError("generated code has an entry point")
