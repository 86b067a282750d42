"""What a model's functions return: 0, -1, or the status of a loop that exceeds its bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hilc.external import ExternalCall, ExternalModule
from hilc.fusion.call import FusedCall
from hilc.ir.loop_bounds import FIRST_STATUS, LoopBound
from hilc.lowering.kernels import KernelCall
from hilc.memory.plan import Program, Step

#: What a run's comment says about a status that is an error.
INVALID_OUTPUTS = "After any status but 0 the outputs are not valid."


@dataclass(frozen=True, eq=False, kw_only=True)
class ControlModule(ExternalModule):
    """The function of an IF or WHILE, with all that it calls.

    In plain code ``source`` is a part of the model's own file, and ``headers`` is empty.
    """

    #: The bounds of its loops, in the order of their statuses.
    bounds: tuple[LoopBound, ...]
    #: Whether a layer of a called graph may fail with -1.
    fails: bool
    #: Whether it has a loop without a bound.
    is_endless: bool
    #: Headers of the kernels that the part includes.
    includes: tuple[str, ...] = ()
    #: Whether ``source`` is a part of the model's own file.
    is_part: bool = False


def control_of(step: Step) -> ControlModule | None:
    """Return the function that a step of IF or WHILE calls; None for any other."""
    module = step.call.module if isinstance(step.call, ExternalCall) else None
    return module if isinstance(module, ControlModule) else None


def loop_bounds(program: Program) -> tuple[LoopBound, ...]:
    """Return the bounds of a written program's loops, in the order of their statuses."""
    modules = filter(None, map(control_of, program.steps))
    return tuple(bound for module in modules for bound in module.bounds)


def is_endless(program: Program) -> bool:
    """Return whether a layer may never end: a loop without a bound, or code of others."""
    return any(
        control.is_endless if (control := control_of(step)) is not None else True
        for step in program.steps
        if isinstance(step.call, ExternalCall)
    )


def can_fail(program: Program) -> bool:
    """Return whether a layer may return -1."""
    return any(map(_fails, program.steps))


def _fails(step: Step) -> bool:
    if (control := control_of(step)) is not None:
        return control.fails
    if isinstance(step.call, FusedCall):
        return any(stage.call.kernel.fails for stage in step.call.stages)
    return not isinstance(step.call, KernelCall) or step.call.kernel.fails


def loop_statuses(program: Program) -> Sequence[str]:
    """Return for each loop with a bound the status of a run that would exceed it, as text."""
    return [
        f"{FIRST_STATUS - index} if {bound}" for index, bound in enumerate(loop_bounds(program))
    ]
