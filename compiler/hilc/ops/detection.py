"""DETECTION_POSTPROCESS: boxes around objects from the answers of a detector, the best ones alone.

Inputs: for each anchor the encoded box (offsets of its centre, then logarithms of its height and
width, each times a scale; what follows them is ignored) `[1, anchors, 4 or more]`, its scores
`[1, anchors, classes]`, with or without a background in front, and the anchors `[anchors, 4]`:
centre, height and width.

Outputs: boxes (top, left, bottom, right), classes, scores and how many there are. What is behind
that many is zero; the references leave it as they find it.

A box is dropped where a better one overlaps it by more than a threshold: by the score of its best
class (fast), or for each class by itself (regular). Of equal scores the first counts as the better.
Boxes are decoded in double precision, as the references do. A box without height or width ends the
run with an error, as there.

Fast, with several classes of a box, the references write box after box further apart, beyond the
ends of their outputs: that is refused where it could happen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.errors import InputError
from hilc.ir import Array, Attributes, Node, Tensor
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, operand, require_counts, require_dtype, unsupported

Float32Array = npt.NDArray[np.float32]

#: Numbers of a box.
CORNERS = 4
#: More detections do not fit any memory.
_MOST = 1 << 16


@dataclass(frozen=True, kw_only=True)
class DetectionAttributes(Attributes):
    """Attributes of DETECTION_POSTPROCESS."""

    #: Largest number of boxes.
    max_detections: int
    #: Classes per box; irrelevant in regular mode, which searches each class.
    max_classes_per_detection: int
    #: Classes, without the background.
    num_classes: int
    #: Least score of a box.
    nms_score_threshold: float
    #: Intersection over union above which the box of lower score is dropped.
    nms_iou_threshold: float
    #: Factor of the vertical offset of a box's centre from its anchor's.
    y_scale: float
    #: Factor of the horizontal offset.
    x_scale: float
    #: Factor of the logarithm of its height over the anchor's.
    h_scale: float
    #: Factor of the logarithm of its width over the anchor's.
    w_scale: float
    #: Whether each class is searched by itself.
    use_regular_nms: bool = False
    #: Boxes of a class that are found at most, regular.
    detections_per_class: int = 100


@dataclass(frozen=True)
class Detection:
    """Sizes and thresholds of the search of a node."""

    anchors: int
    #: Numbers of an encoded box.
    encoded: int
    #: Scores of an anchor, one of a background included.
    columns: int
    #: Classes that are given of a box, fast.
    categories: int
    #: Boxes that the outputs hold.
    rows: int


def detection(node: Node, ins: Sequence[Tensor | None]) -> Detection:
    """Return the sizes and thresholds of a node's search, checked."""
    require_counts(node, inputs=3, outputs=4)
    boxes, scores, anchors = (operand(node, ins, index) for index in range(3))
    for tensor in (boxes, scores, anchors):
        require_dtype(node, tensor, ("float32",))
    stated = DetectionAttributes.of(node)
    count = boxes.shape[1] if len(boxes.shape) == 3 else 0
    encoded, columns = (tensor.shape[-1] if tensor.shape else 0 for tensor in (boxes, scores))
    if (
        boxes.shape != (1, count, encoded)
        or encoded < CORNERS
        or scores.shape != (1, count, columns)
        or anchors.shape != (count, CORNERS)
    ):
        invalid(
            node,
            f"takes boxes {list(boxes.shape)}, scores {list(scores.shape)} and anchors "
            f"{list(anchors.shape)} (accepted: [1, anchors, 4 or more], [1, anchors, classes], "
            "[anchors, 4])",
        )
    _check_numbers(node, stated)
    if columns - stated.num_classes not in (0, 1):
        invalid(
            node,
            f"has {columns} scores for {stated.num_classes} classes (accepted: as many, or one "
            "more for the background)",
        )
    categories = min(stated.max_classes_per_detection, stated.num_classes)
    rows = stated.max_detections * stated.max_classes_per_detection
    if not stated.use_regular_nms:
        found = min(stated.max_detections, count)
        used = place(categories, found - 1, categories - 1) + 1
        if used > rows:
            unsupported(
                node,
                f"gives {categories} classes of each box, which the references write up to box "
                f"{used} of outputs with {rows}",
                "state max_classes_per_detection=1, or use_regular_nms",
            )
    return Detection(count, encoded, columns, categories, rows)


def _check_numbers(node: Node, stated: DetectionAttributes) -> None:
    for name in (
        *("max_detections", "max_classes_per_detection"),
        *("num_classes", "detections_per_class"),
    ):
        value = getattr(stated, name)
        if not 0 < value < _MOST:
            invalid(node, f"has {name} {value} (accepted: 1 to {_MOST - 1})")
    with np.errstate(all="ignore"):
        for name in ("y_scale", "x_scale", "h_scale", "w_scale"):
            value = np.float32(getattr(stated, name))
            if not np.isfinite(value) or value == 0:
                invalid(node, f"has {name} {value} (accepted: any number but 0)")
        if not np.isfinite(np.float32(stated.nms_score_threshold)):
            invalid(node, f"has nms_score_threshold {stated.nms_score_threshold}")
        if not 0 < np.float32(stated.nms_iou_threshold) <= 1:
            invalid(
                node,
                f"has nms_iou_threshold {stated.nms_iou_threshold} (accepted: above 0, up to 1)",
            )


def place(categories: int, box: int, category: int) -> int:
    """Return where the references put a class of a box, fast: boxes are further apart than they
    need be.
    """
    return categories * (box * categories + category) + category


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    rows = detection(node, ins).rows
    shapes = (1, rows, CORNERS), (1, rows), (1, rows), (1,)
    return [(shape, "float32") for shape in shapes]


def _decoded(node: Node, encoded: Array, anchors: Array) -> Float32Array:
    """Return the corners of the boxes."""
    stated, wide = DetectionAttributes.of(node), anchors.astype(np.float64)
    scales = np.array([stated.y_scale, stated.x_scale, stated.h_scale, stated.w_scale], np.float32)
    with np.errstate(all="ignore"):
        scaled = encoded[:, :CORNERS].astype(np.float64) / scales.astype(np.float64)
        centre = (scaled[:, :2] * wide[:, 2:] + wide[:, :2]).astype(np.float32)
        half = (0.5 * np.exp(scaled[:, 2:]) * wide[:, 2:]).astype(np.float32)
        boxes = np.concatenate([centre - half, centre + half], axis=1)
    flat = np.flatnonzero((boxes[:, :2] >= boxes[:, 2:]).any(axis=1))
    if flat.size:
        raise InputError(
            f"{node.op} {node.name!r} takes a box without height or width, that of anchor "
            f"{flat[0]}: {boxes[flat[0]].tolist()}",
            "the reference stops here, too: check the model's inputs and its anchors",
        )
    return boxes


def _largest(a: Array | np.float32, b: Array | np.float32) -> Array:
    """Return the larger of each pair, the first where one is no number."""
    return np.where(a < b, b, a)


def _overlaps(boxes: Float32Array, one: int) -> Float32Array:
    """Return the intersection over union of each box and one box."""
    zero = np.float32(0)
    with np.errstate(all="ignore"):
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        low = _largest(boxes[one, :2], boxes[:, :2])
        high = -_largest(-boxes[one, 2:], -boxes[:, 2:])
        sides = _largest(high - low, zero)
        common = sides[:, 0] * sides[:, 1]
        share = common / (areas[one] + areas - common)
    return np.where((areas[one] <= 0) | (areas <= 0), zero, share)


def _selected(node: Node, boxes: Float32Array, scores: Float32Array, most: int) -> Iterator[int]:
    """Yield the boxes that no better one overlaps, the best first."""
    stated = DetectionAttributes.of(node)
    threshold = np.float32(stated.nms_iou_threshold)
    active = scores >= np.float32(stated.nms_score_threshold)
    for _ in range(most):
        left = np.flatnonzero(active)
        if not left.size:
            return
        best = int(left[np.argmax(scores[left])])
        active[best] = False
        yield best
        active &= ~(_overlaps(boxes, best) > threshold)


def _reference(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    encoded, given, anchors = values
    assert encoded is not None
    assert given is not None
    assert anchors is not None
    own, stated = detection(node, ins), DetectionAttributes.of(node)
    boxes = _decoded(node, encoded[0], anchors)
    scores = given[0, :, own.columns - stated.num_classes :]
    found: list[tuple[int, int, int]] = []
    if stated.use_regular_nms:
        for label in range(stated.num_classes):
            selected = _selected(node, boxes, scores[:, label], stated.detections_per_class)
            found += [(len(found), box, label) for box in selected]
            # Sorting keeps the order of equal scores.
            found.sort(key=lambda each: -scores[each[1:]])
            del found[stated.max_detections :]
        found = [(row, *each[1:]) for row, each in enumerate(found)]
    else:
        order = np.argsort(-scores, axis=1, kind="stable")
        best = np.take_along_axis(scores, order[:, :1], 1)[:, 0]
        for number, box in enumerate(_selected(node, boxes, best, stated.max_detections)):
            for category in range(own.categories):
                row = place(own.categories, number, category)
                found.append((row, box, int(order[box, category])))
    results = [np.zeros(tensor.shape, np.float32) for tensor in outs]
    for row, box, label in found:
        results[0][0, row], results[1][0, row] = boxes[box], label
        results[2][0, row] = scores[box, label]
    results[3][0] = len(found)
    return results


def _fill_unwritten(node: Node, values: Sequence[Array]) -> list[Array]:
    """Return a reference's outputs with zeros where it leaves them as it finds them."""
    stated, count = DetectionAttributes.of(node), int(values[3].reshape(-1)[0])
    categories = min(stated.max_classes_per_detection, stated.num_classes)
    rows = values[1].shape[-1]
    if stated.use_regular_nms:
        written = np.arange(stated.max_detections)
    else:
        written = np.array(
            [place(categories, i // categories, i % categories) for i in range(count)], np.int64
        )
    left = np.setdiff1d(np.arange(rows), written)
    filled = [value.copy() for value in values]
    for value in filled[:3]:
        value[:, left] = 0
    return filled


DETECTION_POSTPROCESS = OpDef(
    _infer, _reference, attributes=DetectionAttributes, fill_unwritten=_fill_unwritten
)

OPERATORS: Mapping[str, OpDef] = {
    "DETECTION_POSTPROCESS": DETECTION_POSTPROCESS,
}
