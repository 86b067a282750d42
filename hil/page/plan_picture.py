"""Picture of a memory plan: buffers by layer and offset."""

from __future__ import annotations

import hashlib
import io
import re
import struct
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from matplotlib.transforms import Bbox

from hilc.memory.explanation import BEFORE, ArenaSlot, Explanation, StepMemory
from hilc.support.outputs import write_file

#: The formats of a picture, by the file's suffix.
FORMATS = (".svg", ".png", ".pdf")

#: Kinds of boxes: colour, outline (for readers who do not see the colour), legend.
KINDS: dict[str, tuple[str, Any, str]] = {
    "input": ("#7fb069", "-", "input"),
    "tensor": ("#5b8db8", "-", "between layers"),
    "output": ("#d98e4a", "-", "output"),
    "state": ("#c46d7c", "-", "state, kept from run to run"),
    "scratch": ("#c4c4c4", (0, (3, 2)), "kernel scratch"),
    "kept": ("#9d7fc1", "-", "rows kept in the scratch of a group"),
}
_PEAK = "#fff3c4"
_INK = "#333333"

#: Inches: height of a pool's axes, width of a column (a layer), largest width of a picture.
_POOL_HEIGHT = 4.2
_COLUMN_LEAST, _COLUMN_MOST, _WIDTH_WANTED, _WIDTH_MOST = 0.42, 0.9, 9.0, 60.0
_LABEL_SIZE, _TICK_SIZE, _TITLE_SIZE = 7.5, 8.0, 12.0
#: Narrower columns would make their names overlap.
_TICK_ROOM = 0.15
#: Pixels between a label and the edge of its box or another label.
_LABEL_GAP = 2.0
#: Positions of a label in its box, in the order of trying: from the middle outward.
_LABEL_PLACES = (0.5, 0.35, 0.65, 0.2, 0.8, 0.1, 0.9)

#: Text as outlines is independent of installed fonts; a fixed salt makes files reproducible.
STYLE = {
    "svg.fonttype": "path",
    "svg.hashsalt": "hil",
    "font.family": "DejaVu Sans",
    "pdf.fonttype": 42,
    # Names from models may have dollar signs in them, which would begin a formula.
    "text.parse_math": False,
}


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format that the suffix of ``path`` names, one of :data:`FORMATS`.

    The same figure gives the same bytes. In an SVG, each box of :func:`plan_figure` has its title
    as a tooltip.
    """
    suffix = Path(path).suffix.lower()
    buffer = io.BytesIO()
    # No date: pictures are committed and compared.
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix, {})
    with rc_context(STYLE):
        figure.savefig(buffer, format=suffix[1:], metadata=metadata, bbox_inches="tight", dpi=150)
    data = buffer.getvalue()
    if suffix == ".svg":
        data = with_tooltips(data, figure)
    write_file(path, _stamped(data, suffix))


def is_unchanged(path: str | Path) -> bool:
    """Return whether :func:`save` wrote the file and nothing edited it since."""
    suffix, data = Path(path).suffix.lower(), Path(path).read_bytes()
    end = _ends(data, suffix) - len(_stamp(b"", suffix))
    return end >= 0 and _stamped(data[:end] + data[_ends(data, suffix) :], suffix) == data


def _stamped(data: bytes, suffix: str) -> bytes:
    """Return the picture with its digest in it, as a comment of the format."""
    end = _ends(data, suffix)
    return data[:end] + _stamp(data, suffix) + data[end:]


def _ends(data: bytes, suffix: str) -> int:
    """Return the position of the stamp: the end, or of a PNG before its last chunk, IEND."""
    return len(data) - (12 if suffix == ".png" else 0)


def _stamp(data: bytes, suffix: str) -> bytes:
    text = b"hil\0" + hashlib.sha256(data).hexdigest().encode()
    if suffix == ".png":
        chunk = b"tEXt" + text
        return struct.pack(">I", len(text)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    text = text.replace(b"\0", b" ")
    return b"<!-- %s -->\n" % text if suffix == ".svg" else b"%%%s\n" % text


def plan_figure(plan: Explanation) -> Figure:
    """Return the figure of a plan: a box for every buffer in a pool.

    Columns are layers, in the order of execution; a fused group has one column for each of its
    layers. A box spans the columns of its live range and is labelled in the first of them with its
    size in bytes; where an output overwrites an input, their boxes overlap. The layer with the
    highest use is marked.
    """
    columns = _Columns(plan.steps)
    inches = min(max(_WIDTH_WANTED / columns.count, _COLUMN_LEAST), _COLUMN_MOST)
    inches = min(inches, _WIDTH_MOST / columns.count)
    pools = len(plan.pools)
    states = f", {plan.state_bytes:,} of state" if plan.state_bytes else ""
    with rc_context(STYLE):
        figure = Figure(figsize=(columns.count * inches + 1.2, pools * _POOL_HEIGHT + 1.4))
        canvas = FigureCanvasAgg(figure)
        all_axes = figure.subplots(pools, 1, sharex=True, squeeze=False)[:, 0]
        for pool, axes in enumerate(all_axes):
            _frame(axes, plan, pool, columns)
            _boxes(axes, plan, pool, columns)
        _name_columns(all_axes[-1], plan, columns, inches)
        rows = _legend(all_axes[0], plan)
        all_axes[0].set_title(
            f"{plan.model} on {plan.cpu}: {plan.workspace_bytes:,} bytes of workspace{states}",
            loc="left",
            fontsize=_TITLE_SIZE,
            pad=8 + 14 * rows,
        )
        figure.tight_layout()
        # Labels last: their positions depend on text sizes in the finished layout.
        canvas.draw()
        for axes in all_axes:
            _label(axes, canvas)
    return figure


class _Columns:
    """The columns of a plan: the caller's inputs, one per layer, the caller's outputs."""

    def __init__(self, steps: Sequence[StepMemory]) -> None:
        self._starts = [0, 1]
        for step in steps:
            self._starts.append(self._starts[-1] + (len(step.nodes) if step.kept else 1))
        self._starts.append(self._starts[-1] + 1)
        self.count = self._starts[-1]

    def start(self, step: int) -> int:
        """Return the first column of a step; :data:`BEFORE` and the number of steps are valid."""
        return self._starts[step - BEFORE]

    def end(self, step: int) -> int:
        return self._starts[step - BEFORE + 1]


class TitledBox(Rectangle):
    """Box with a title, which is its tooltip in an SVG; its gid identifies it in the figure."""

    title: str


class _Box(TitledBox):
    """Box of a buffer: its bytes by the columns of its live range."""

    def __init__(
        self, kind: str, start: int, end: int, first: int, last: int, name: str, gid: str
    ) -> None:
        colour, dash, _ = KINDS[kind]
        super().__init__(
            (start + 0.03, first),
            end - start - 0.06,
            last - first,
            facecolor=colour,
            edgecolor=_INK,
            linestyle=dash,
            linewidth=0.8,
            alpha=0.6,
        )
        self.column = start
        self.first, self.last = first, last
        #: The lowest byte at which its label may stand: other boxes cover the bytes below.
        self.label_from = first
        self.set_gid(gid)
        self.title = f"{name}: {last - first:,} bytes, {first:,} to {last:,}"


def _boxes(axes: Axes, plan: Explanation, pool: int, columns: _Columns) -> None:
    # Large boxes first, so that they do not cover smaller ones.
    slots = [slot for slot in plan.slots if slot.pool == pool]
    for index, slot in enumerate(sorted(slots, key=lambda t: (-t.bytes, t.first))):
        start, end = columns.start(slot.first), columns.end(slot.last)
        gid = f"box-{pool}-{index}"
        box = _Box(slot.what, start, end, slot.offset, slot.end, slot.name, gid)
        axes.add_patch(box)
        if slot.what == "scratch":
            for part in _kept(plan.steps[slot.first], slot, start, gid):
                axes.add_patch(part)
                box.label_from = max(box.label_from, part.last)


def _kept(step: StepMemory, scratch: ArenaSlot, start: int, gid: str) -> Iterator[_Box]:
    """Yield the kept rows of a group's inner tensors, from their layer to the next one."""
    order = {node.name: index for index, node in enumerate(step.nodes)}
    for index, (name, first, last) in enumerate(step.kept):
        column = start + order[name]
        first, last = scratch.offset + first, scratch.offset + last
        yield _Box("kept", column, column + 2, first, last, f"rows of {name}", f"{gid}-{index}")


def _frame(axes: Axes, plan: Explanation, pool: int, columns: _Columns) -> None:
    name, size = plan.pools[pool]
    axes.set_xlim(0, columns.count)
    axes.set_ylim(0, max(size, 1) * 1.02)
    axes.set_ylabel(f"byte of {name}", fontsize=_TICK_SIZE)
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 4, 5, 8, 10]))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.tick_params(axis="both", labelsize=_TICK_SIZE, length=3)
    axes.grid(axis="y", color="#e2e2e2", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.axhline(size, color=_INK, linewidth=0.8, linestyle=(0, (6, 3)))
    axes.annotate(
        f"{size:,}",
        (columns.count, size),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        fontsize=_TICK_SIZE,
        annotation_clip=False,
    )
    if pool == 0 and plan.steps:
        start, end = columns.start(plan.peak), columns.end(plan.peak)
        axes.axvspan(start, end, color=_PEAK, linewidth=0, zorder=0)


def _legend(axes: Axes, plan: Explanation) -> int:
    """Draw the legend between the title and the first pool; return the number of its rows."""
    there: set[str] = {slot.what for slot in plan.slots}
    there |= {"kept"} if any(step.kept for step in plan.steps) else set()
    handles = [
        Patch(
            facecolor=colour, edgecolor=_INK, linestyle=dash, linewidth=0.8, alpha=0.6, label=name
        )
        for kind, (colour, dash, name) in KINDS.items()
        if kind in there
    ]
    if plan.steps:
        handles.append(Patch(facecolor=_PEAK, label="layer that needs the most"))
    columns = 3 if len(handles) > 4 else len(handles)
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=columns,
        fontsize=_TICK_SIZE,
        frameon=False,
        borderaxespad=0.3,
        columnspacing=1.2,
        handlelength=1.4,
    )
    return -(-len(handles) // columns)


def _name_columns(axes: Axes, plan: Explanation, columns: _Columns, inches: float) -> None:
    """Name the layers below the last pool; only every n-th if the names would overlap."""
    names = ["inputs"]
    for index, step in enumerate(plan.steps):
        if step.kept:
            last = len(step.nodes)
            names += [f"{index} ({n} of {last}) {node.op}" for n, node in enumerate(step.nodes, 1)]
        else:
            names.append(f"{index} {step.ops}")
    names.append("outputs")
    every = max(1, -int(-_TICK_ROOM // inches))
    places = [place + 0.5 for place in range(0, columns.count, every)]
    axes.set_xticks(places, names[::every], rotation=45, ha="right", rotation_mode="anchor")
    if plan.steps:
        peak = range(columns.start(plan.peak), columns.end(plan.peak))
        for place, text in zip(places, axes.get_xticklabels(), strict=True):
            text.set_fontweight("bold" if int(place) in peak else "normal")


def _label(axes: Axes, canvas: FigureCanvasAgg) -> None:
    """Write the size of each box into its first column, if it fits.

    A label is rotated if it is too wide for the column, moves along the box if another label is in
    the way, and is left out if it does not fit: labels never overlap.
    """
    placed: list[Bbox] = []
    boxes = [patch for patch in axes.patches if isinstance(patch, _Box)]
    for box in sorted(boxes, key=lambda b: b.last - b.first):
        text = axes.text(
            box.column + 0.5,
            box.label_from,
            f"{box.last - box.first:,}",
            fontsize=_LABEL_SIZE,
            ha="center",
            va="center",
            color="#1a1a1a",
        )
        (left, low), (right, high) = axes.transData.transform(
            [(box.column, box.label_from), (box.column + 1, box.last)]
        )
        room = Bbox([[left, low], [right, high]]).padded(-_LABEL_GAP)
        for rotation, share in ((r, s) for r in (0, 90) for s in _LABEL_PLACES):
            text.set_rotation(rotation)
            text.set_y(box.label_from + share * (box.last - box.label_from))
            extent = text.get_window_extent(canvas.get_renderer())
            inside = (
                room.x0 <= extent.x0
                and extent.x1 <= room.x1
                and room.y0 <= extent.y0
                and extent.y1 <= room.y1
            )
            if inside and not any(extent.padded(_LABEL_GAP).overlaps(other) for other in placed):
                placed.append(extent)
                break
        else:
            text.remove()


def with_tooltips(svg: bytes, figure: Figure) -> bytes:
    """Return the SVG with a title element in each box, which viewers show as a tooltip."""
    titles = {
        box.get_gid(): box.title
        for axes in figure.axes
        for box in axes.patches
        if isinstance(box, TitledBox)
    }
    namespace = "http://www.w3.org/2000/svg"
    for prefix, uri in re.findall(rb'xmlns:?(\w*)="([^"]+)"', svg):
        ElementTree.register_namespace(prefix.decode(), uri.decode())
    root: Any = ElementTree.fromstring(svg)
    for element in root.iter(f"{{{namespace}}}g"):
        if (title := titles.get(element.get("id"))) is not None:
            child = ElementTree.Element(f"{{{namespace}}}title")
            child.text = title
            element.insert(0, child)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root) + b"\n"
