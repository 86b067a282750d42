"""Charts of the page, drawn by matplotlib as SVG inside of the page.

Colours of text, lines and background follow the page's scheme, light or dark. A chart that would be
too small on a telephone is drawn twice, and the page shows the one that fits.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from hil.page.plan_picture import STYLE, TitledBox, plan_figure, with_tooltips
from hil.results.parts import ErrorBin
from hilc.memory.explanation import Explanation

_SVG = "http://www.w3.org/2000/svg"
#: Inches: width of a chart on a screen and on a telephone.
_WIDE, _NARROW = 7.4, 3.4
#: A figure's inches are drawn with 72 units each; a page has 96 pixels for each.
_PIXELS_PER_UNIT = 96 / 72
_TEXT, _SMALL = 8.5, 7.5
#: Colours of the figures that the page's scheme replaces, and its properties.
_SCHEME = {
    "#000000": "currentColor",
    "#1a1a1a": "currentColor",
    "#333333": "currentColor",
    "#e2e2e2": "var(--line)",
    "#fff3c4": "var(--peak)",
    "#ffffff": "var(--card)",
}
_INK, _GRID = "#333333", "#e2e2e2"
#: Colours of owners and lines.
PALETTE = ("#5b8db8", "#7fb069", "#d98e4a", "#9d7fc1", "#c46d7c", "#5fb0a8", "#b0a04f")
#: Share of the font's size that a character is wide, at most on average; that a line is high.
_CHARACTER, _LINE = 0.62, 1.25
#: Opacity of a part of a treemap, which covers no other; the scheme replaces it.
_PART = 0.65
_LABELS_MOST, _LABEL_LENGTH = 24, 16


@dataclass(frozen=True)
class Line:
    """A line of a chart: its name, and its values from left to right."""

    name: str
    values: Sequence[float | None]


def plan_chart(plan: Explanation, key: str) -> Markup:
    """Return the picture of a memory plan."""
    title = f"Memory over time: which tensor of {plan.model} lives where"
    peak = ""
    if plan.steps:
        step = plan.steps[plan.peak]
        peak = f" Layer {plan.peak} ({step.ops}) needs the most: {step.used_bytes:,} bytes."
    description = (
        f"{len(plan.slots)} buffers in {plan.workspace_bytes:,} bytes of workspace over "
        f"{len(plan.steps)} layers.{peak} The table below has the same data."
    )
    return _inline(plan_figure(plan), key, title, description)


def treemap(parts: Mapping[str, Mapping[str, int]], key: str, what: str) -> Markup:
    """Return a treemap of bytes by owner, the largest first, and by kind within an owner."""
    total = sum(sum(kinds.values()) for kinds in parts.values())
    owners = ", ".join(f"{owner} {sum(kinds.values()):,}" for owner, kinds in parts.items())
    description = f"{total:,} bytes: {owners}. The table below has the same data."
    return _in_two_widths(
        lambda width: _treemap_figure(parts, width), key, f"{what} by owner", description
    )


def colour_of(index: int) -> str:
    """Return the colour of an owner in a treemap, by its position."""
    return PALETTE[index % len(PALETTE)]


def histogram(bins: Sequence[ErrorBin], key: str, what: str, unit: str) -> Markup:
    """Return a histogram of errors, whose bins may be of different widths."""
    total = sum(b.count for b in bins)
    description = (
        f"{total:,} elements in {len(bins)} ranges of errors, from {bins[0].low:g} to "
        f"{bins[-1].high:g} {unit}. The table below has the same data."
    )
    return _in_two_widths(
        lambda width: _histogram_figure(bins, width, unit), key, f"Errors of {what}", description
    )


def lines(labels: Sequence[str], series: Sequence[Line], key: str, what: str, unit: str) -> Markup:
    """Return values over runs as lines, from the oldest run to the newest."""
    labels = [label[:_LABEL_LENGTH] for label in labels]
    description = (
        f"{len(labels)} runs, from {labels[0]} to {labels[-1]}. The table below has their data."
    )
    return _in_two_widths(
        lambda width: _lines_figure(labels, series, width, unit), key, what, description
    )


# -- figures -----------------------------------------------------------------------------------


def _treemap_figure(parts: Mapping[str, Mapping[str, int]], width: float) -> Figure:
    # Not at the top: a part of the extra `report`, which this package asks for when it draws.
    import squarify

    height = width * (0.42 if width == _WIDE else 0.9)
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, width * 72)
    axes.set_ylim(height * 72, 0)
    axes.axis("off")
    owners = list(parts)
    sums = [sum(kinds.values()) for kinds in parts.values()]
    sizes = squarify.normalize_sizes(sums, width * 72, height * 72)
    places = squarify.squarify(sizes, 0, 0, width * 72, height * 72)
    for index, (owner, place) in enumerate(zip(owners, places, strict=True)):
        kinds = sorted(parts[owner].items(), key=lambda item: -item[1])
        colour = colour_of(index)
        areas = squarify.normalize_sizes([n for _, n in kinds], place["dx"], place["dy"])
        inner = squarify.squarify(areas, place["x"], place["y"], place["dx"], place["dy"])
        for number, ((kind, nbytes), box) in enumerate(zip(kinds, inner, strict=True)):
            patch = TitledBox(
                (box["x"], box["y"]),
                box["dx"],
                box["dy"],
                facecolor=colour,
                edgecolor="#ffffff",
                linewidth=1.5,
                alpha=_PART,
            )
            patch.set_gid(f"part-{index}-{number}")
            patch.title = f"{owner}, {kind}: {nbytes:,} bytes"
            axes.add_patch(patch)
            _label_part(axes, box, (owner, kind, f"{nbytes:,} B"))
    return figure


def _label_part(axes: Any, box: Mapping[str, float], texts: Sequence[str]) -> None:
    """Write the lines that fit into a box; the first is its owner."""
    for count in range(len(texts), 0, -1):
        shown = texts[:count]
        wide = max(map(len, shown)) * _CHARACTER * _TEXT
        if wide + 6 <= box["dx"] and count * _LINE * _TEXT + 6 <= box["dy"]:
            for line, text in enumerate(shown):
                axes.text(
                    box["x"] + 5,
                    box["y"] + 4 + line * _LINE * _TEXT,
                    text,
                    fontsize=_TEXT,
                    fontweight="bold" if line == 0 else "normal",
                    va="top",
                    color=_INK,
                )
            return


def _histogram_figure(bins: Sequence[ErrorBin], width: float, unit: str) -> Figure:
    figure, axes = _axes(width, 2.6)
    counts = [b.count for b in bins]
    axes.bar(range(len(bins)), counts, width=0.8, color=PALETTE[0], edgecolor=_INK, linewidth=0.6)
    if max(counts) > 50 * min(counts):
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.5)
        axes.yaxis.set_minor_formatter(NullFormatter())
    # That of logarithmic axes writes formulas.
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_ylabel("elements" + (", logarithmic" if axes.get_yscale() == "log" else ""))
    axes.set_xlabel(f"device minus reference ({unit})")
    every = max(1, -(-len(bins) // _most_labels(width, max(len(bin_text(b)) for b in bins))))
    places = range(0, len(bins), every)
    axes.set_xticks(list(places), [bin_text(bins[place]) for place in places])
    return figure


def _lines_figure(labels: Sequence[str], series: Sequence[Line], width: float, unit: str) -> Figure:
    figure, axes = _axes(width, 2.4)
    for index, line in enumerate(series):
        points = [(x, y) for x, y in enumerate(line.values) if y is not None]
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            marker="osD^v"[index % 5],
            markersize=3.5,
            linewidth=1.4,
            color=PALETTE[index % len(PALETTE)],
            label=line.name,
        )
    axes.set_ylabel(unit)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(axis="y", color=_GRID, linewidth=0.6)
    every = max(1, -(-len(labels) // _most_labels(width, max(map(len, labels)))))
    places = range(0, len(labels), every)
    axes.set_xticks(list(places), [labels[place] for place in places])
    if len(series) > 1:
        axes.legend(fontsize=_SMALL, frameon=False, ncols=2)
    return figure


def _axes(width: float, height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.tick_params(labelsize=_SMALL, length=3)
    axes.xaxis.label.set_fontsize(_TEXT)
    axes.yaxis.label.set_fontsize(_TEXT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    return figure, axes


def _most_labels(width: float, characters: int) -> int:
    """Return how many labels of so many characters have room side by side."""
    room = (width * 72 - 50) / ((characters + 1.5) * _CHARACTER * _SMALL)
    return max(1, min(_LABELS_MOST, int(room)))


def bin_text(error: ErrorBin) -> str:
    """Return the range of a bin as text."""
    if error.low == error.high:
        return f"{error.low:g}"
    return f"{error.low:g} to {error.high:g}"


# -- SVG ---------------------------------------------------------------------------------------


def _in_two_widths(
    draw: Callable[[float], Figure], key: str, title: str, description: str
) -> Markup:
    pictures = []
    for name, width in (("wide", _WIDE), ("narrow", _NARROW)):
        with rc_context(STYLE):
            figure = draw(width)
        pictures.append(_inline(figure, f"{key}-{name}", title, description, name))
    return Markup("").join(pictures)


def _inline(
    figure: Figure, key: str, title: str, description: str, kind: str = "scrolled"
) -> Markup:
    """Return a figure as an SVG element whose ids begin with ``key``."""
    buffer = io.BytesIO()
    with rc_context({**STYLE, "svg.fonttype": "none"}):
        figure.savefig(
            buffer,
            format="svg",
            metadata={"Date": None},
            # Charts in two widths fill their figure; a plan's names stand beside of it.
            bbox_inches="tight" if kind == "scrolled" else None,
            pad_inches=0.03,
            transparent=True,
        )
    root = ElementTree.fromstring(with_tooltips(buffer.getvalue(), figure))
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    _prefix_ids(root, key)
    for element in root.iter():
        for name in ("style", "d", "transform", "points"):
            if (value := element.get(name)) is not None:
                element.set(name, _themed(value) if name == "style" else _rounded(value))
    units = float(root.get("viewBox", "0 0 1 1").split()[2])
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("class", f"chart {kind}")
    root.set("style", f"--natural: {units * _PIXELS_PER_UNIT:.0f}px")
    root.set("role", "img")
    root.set("aria-labelledby", f"{key}-title {key}-description")
    for position, (tag, text) in enumerate((("title", title), ("desc", description))):
        child = ElementTree.Element(f"{{{_SVG}}}{tag}")
        child.set("id", f"{key}-{'description' if tag == 'desc' else 'title'}")
        child.text = text
        root.insert(position, child)
    ElementTree.register_namespace("", _SVG)
    # The serializer has escaped every text, and nothing in it is from elsewhere.
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _prefix_ids(root: ElementTree.Element, key: str) -> None:
    """Make ids unique in the page; drop those that nothing refers to."""
    text = ElementTree.tostring(root, encoding="unicode")
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", text))
    for element in root.iter():
        if (own := element.get("id")) is not None:
            if own in used:
                element.set("id", f"{key}-{own}")
            else:
                del element.attrib["id"]
        for name, value in element.attrib.items():
            if name.endswith("href"):
                element.set(name, value.replace("#", f"#{key}-", 1))
            elif "url(#" in value:
                element.set(name, value.replace("url(#", f"url(#{key}-"))


def _themed(style: str) -> str:
    """Return a style whose colours are those of the page's scheme."""
    for colour, value in _SCHEME.items():
        style = style.replace(colour, value)
    style = re.sub(r"(?<![-\w])opacity: 0\.6\b", "opacity: var(--box)", style)
    style = re.sub(rf"(?<![-\w])opacity: {_PART}\b", "opacity: var(--part)", style)
    return re.sub(r"'DejaVu Sans'[^;]*", "inherit", style)


def _rounded(numbers: str) -> str:
    return re.sub(r"-?\d+\.\d+", lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), numbers)
