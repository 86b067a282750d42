"""DETECTION_POSTPROCESS."""

from __future__ import annotations

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilDetection,
    HilGenericDetectionFast,
    HilGenericDetectionRegular,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.detection import DetectionAttributes, detection


@lowers("DETECTION_POSTPROCESS")
def detections(layer: Layer) -> KernelCall:
    """Return the call that decodes boxes, and searches for the best ones."""
    own, stated = detection(layer.node, layer.ins), DetectionAttributes.of(layer.node)
    searched = HilDetection(
        anchors=own.anchors,
        encoded=own.encoded,
        columns=own.columns,
        classes=stated.num_classes,
        most=stated.max_detections,
        rows=own.rows,
        score_threshold=stated.nms_score_threshold,
        overlap=stated.nms_iou_threshold,
        scales=(stated.y_scale, stated.x_scale, stated.h_scale, stated.w_scale),
    )
    parameters: HilGenericDetectionRegular | HilGenericDetectionFast
    if stated.use_regular_nms:
        parameters = HilGenericDetectionRegular(
            detection=searched, per_class=stated.detections_per_class
        )
    else:
        parameters = HilGenericDetectionFast(detection=searched, categories=own.categories)
    return KernelCall(parameters, (0, 1, 2))
