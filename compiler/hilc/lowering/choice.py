"""Choices in a program: the kernel of each layer, and the fused groups.

A choice never changes what a model computes, only its memory and its instructions. It is a value,
so that :func:`hilc.memory.plan.plan` makes the same program of it again;
:mod:`hilc.schedule.search` finds good ones. Nodes are named by :attr:`hilc.ir.Node.name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from hilc.support.old_names import refusing

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__, {"Choice": f"{__name__}.KernelSelection"})


@dataclass(frozen=True)
class Group:
    """Consecutive nodes that run as one fused operator, band by band (:mod:`hilc.fusion`).

    A group of one node is that node's kernel, run on bands of its image.
    """

    #: Names of the nodes, in their order in the graph.
    nodes: tuple[str, ...]
    #: Rows of the last node's output that are computed at a time.
    rows: int = 1
    #: Whether bands are computed from the first row to the last, or from the last to the first.
    direction: Literal["forward", "backward"] = "forward"
    #: For each node the name of its kernel variant, or nothing for the one that takes the fewest
    #: instructions by estimate; empty for that of each.
    kernels: tuple[str, ...] = ()
    #: Channels of an expansion in front of a depthwise layer that are computed at a time, again for
    #: each of its rows (:mod:`hilc.fusion.slices`); 0 to keep the rows of all channels.
    sliced: int = 0


@dataclass(frozen=True)
class KernelSelection:
    """The kernels and groups of a program."""

    #: By a node's name, the name of its kernel variant, such as
    #: ``dsp.conv2d.s8.column_pairs.3_rows``; the variant that is expected to be the fastest where
    #: the node is not named. Nodes of a group are not named.
    kernels: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernels", MappingProxyType(dict(self.kernels)))


#: The variant of each layer with the fewest estimated instructions, and no groups.
DEFAULT_CHOICE = KernelSelection()


@dataclass(frozen=True)
class CostEstimate:
    """Cost of a program. The workspace is exact, the others are estimates."""

    workspace_bytes: int
    instructions: int
    #: Constants and code of the layers.
    flash_bytes: int

    def keeps(self, ram: int | None, flash: int | None) -> bool:
        """Return whether it is at most ``ram`` bytes of workspace and ``flash`` bytes, as far as
        given.
        """
        return (ram is None or self.workspace_bytes <= ram) and (
            flash is None or self.flash_bytes <= flash
        )


@dataclass(frozen=True)
class ChoiceReport:
    """The selected program, its cost, and that of the fastest program."""

    goal: str
    chosen: CostEstimate
    fastest: CostEstimate
    groups: tuple[Group, ...]
    #: Whether the layers' instructions were measured, in a tuning log.
    tuned: bool
    #: Whether those of the whole program were.
    measured: bool = False
    #: Unit of the costs: ``cycles`` where the log has those.
    counter: str = "instructions"
    #: For an input that is fed by rows: bytes of workspace, inputs and outputs that a program for
    #: the whole input saves; 0 if it saves none.
    whole_saves_bytes: int = 0
    #: The most scratch that a layer's kernel takes, in bytes; it is part of the workspace.
    scratch_bytes: int = 0
