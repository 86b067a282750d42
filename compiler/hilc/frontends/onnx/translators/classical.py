"""Classical machine learning, of ONNX's domain ``ai.onnx.ml``: what scikit-learn models export to.

Numbers alone: labels and categories that are texts are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.arithmetic import divide, multiply, subtract, summed
from hilc.ir import Array, Tensor
from hilc.ops.concat_split import ConcatenationAttributes
from hilc.ops.fully_connected import FullyConnectedAttributes
from hilc.ops.gather import GatherAttributes
from hilc.ops.reduce import ArgAttributes
from hilc.ops.softmax import SoftmaxAttributes

ML = "ai.onnx.ml"


def real(n: Operation) -> Tensor:
    """Return the input as a matrix of floats: rows of features."""
    x = n.input(0)
    if x.dtype == "float64":
        n.refuse("computes in double precision", "give it float32")
    if len(x.shape) not in (1, 2):
        n.invalid(f"takes {list(x.shape)} (accepted: [features], [rows, features])")
    return n.cast(n.reshape(x, x.shape if len(x.shape) == 2 else (1, *x.shape)), "float32")


@translates("Scaler", domain=ML)
def scaler(n: Operation) -> Tensor:
    """Translate ai.onnx.ml Scaler to (x - offset) * scale in float32.

    Raises :class:`~hilc.errors.ModelError` if offset or scale has neither 1 element nor one for
    each feature.
    """
    x = n.cast(n.input(0), "float32")
    offset, scale = (n.constant(n.numbers(name, ()), "float32") for name in ("offset", "scale"))
    for operand in (offset, scale):
        if operand.size not in (1, x.shape[-1]):
            n.invalid(f"scales {x.shape[-1]} features by {operand.size} numbers")
    return multiply(n, subtract(n, x, offset), scale)


@translates("Normalizer", domain=ML)
def normalizer(n: Operation) -> Tensor:
    """Divide rows by their norm."""
    x, norm = real(n), n.text("norm", "MAX")
    if norm == "MAX":
        n.refuse(
            "divides by the maximum (norm='MAX')",
            "runtimes differ in whether that is the maximum of magnitudes; use L1 or L2",
        )
    if norm not in ("L1", "L2"):
        n.invalid(f"has the norm {norm!r} (accepted: MAX, L1, L2)")
    size = n.emit("ABS", x) if norm == "L1" else multiply(n, x, x)
    total = summed(n, size, 1, keep=True)
    total = n.emit("SQRT", total) if norm == "L2" else total
    least = n.constant(1e-30, "float32")
    return n.reshape(divide(n, x, n.emit("MAXIMUM", total, least)), n.input(0).shape)


@translates("Binarizer", domain=ML)
def binarizer(n: Operation) -> Tensor:
    """Translate ai.onnx.ml Binarizer: 1 above the threshold, 0 otherwise."""
    x = n.input(0)
    above = n.emit("GREATER", x, n.constant(n.number("threshold", 0.0), x.dtype))
    return n.cast(above, x.dtype)


@translates("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(n: Operation) -> Tensor:
    """Take columns of the last axis."""
    x, columns = n.input(0), n.input(1)
    shape = (1, *x.shape) if len(x.shape) == 1 else x.shape
    if columns.data is not None:
        known = n.known_ints(1, "the columns")
        if not known or min(known) < 0 or max(known) >= x.shape[-1]:
            n.invalid(f"takes the columns {list(known)} of {list(x.shape)}")
    listed = n.cast(n.reshape(columns, (columns.size,)), "int32")
    attrs = GatherAttributes(axis=len(shape) - 1)
    return n.emit("GATHER", n.reshape(x, shape), listed, attrs=attrs)


@translates("FeatureVectorizer", domain=ML)
def feature_vectorizer(n: Operation) -> Tensor:
    """Put features of several tensors side by side."""
    parts = [n.cast(n.input(i), "float32") for i in range(n.count)]
    rows = [part if len(part.shape) == 2 else n.reshape(part, (1, part.size)) for part in parts]
    if tuple(row.shape[1] for row in rows) != n.integers("inputdimensions"):
        n.invalid(f"states inputdimensions {list(n.integers('inputdimensions'))}")
    if len(rows) == 1:
        return rows[0]
    return n.emit("CONCATENATION", *rows, attrs=ConcatenationAttributes(axis=1))


@translates("Imputer", domain=ML)
def imputer(n: Operation) -> Tensor:
    """Translate ai.onnx.ml Imputer: replace missing values."""
    x = n.input(0)
    kind = "float" if x.element.is_real else "int64"
    values: Array = np.array(
        (n.numbers if kind == "float" else n.integers)(f"imputed_value_{kind}s", ())
    )
    if x.dtype not in ("float32", "int64") or values.size not in (1, x.shape[-1]):
        n.invalid(f"puts {values.size} values into {x.dtype}{list(x.shape)}")
    mark = (n.number if kind == "float" else n.integer)(f"replaced_value_{kind}", 0)
    missing = (
        n.emit("NOT_EQUAL", x, x)
        if np.isnan(mark)
        else n.emit("EQUAL", x, n.constant(mark, x.dtype))
    )
    return n.emit("SELECT_V2", missing, n.constant(values, x.dtype), x)


# Labels -------------------------------------------------------------------------------------------


def _table(n: Operation, name: str) -> tuple[Array | None, bool]:
    """Return the numbers that a node lists, and whether it lists texts instead."""
    tensor = n.array(f"{name}_tensor")
    if tensor is not None:
        return (None, True) if tensor.dtype.kind in "OSU" else (tensor.reshape(-1), False)
    if n.has_attribute(f"{name}_int64s"):
        return np.array(n.integers(f"{name}_int64s"), np.int64), False
    if n.has_attribute(f"{name}_floats"):
        return np.array(n.numbers(f"{name}_floats"), np.float32), False
    return None, n.has_attribute(f"{name}_strings")


@translates("LabelEncoder", domain=ML)
def label_encoder(n: Operation) -> Tensor:
    """Translate ai.onnx.ml LabelEncoder: map keys to values, and other inputs to a default."""
    x = n.input(0)
    (keys, texts), (values, other_texts) = _table(n, "keys"), _table(n, "values")
    if texts or other_texts or n.version < 2:
        n.refuse("encodes texts", "encode them before the model, and give it numbers")
    if keys is None or values is None or keys.size != values.size or not keys.size:
        n.invalid("lists no keys, or not as many values")
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        n.refuse("has a key that is no number", "put a number in its place before (Imputer)")
    if x.dtype != keys.dtype.name:
        n.invalid(f"looks {x.dtype} up among keys of {keys.dtype}")
    default: object = -1 if values.dtype.kind == "i" else -0.0
    tensor = n.array("default_tensor")
    if tensor is not None:
        default = tensor.reshape(-1)[0]
    elif values.dtype.kind == "i":
        default = n.integer("default_int64", -1)
    else:
        default = n.number("default_float", -0.0)
    # Of a key that is listed twice, the last value counts.
    last = {key: value for key, value in zip(keys.tolist(), values.tolist(), strict=True)}
    found = _first(n, x, np.array(list(last), keys.dtype))
    listed = np.array([*last.values(), default], values.dtype)
    return n.emit("GATHER", n.constant(listed), found, attrs=GatherAttributes(axis=0))


def _matches(n: Operation, x: Tensor, keys: Array) -> Tensor:
    """Return which of the keys each element equals, along a new last axis."""
    return n.emit("EQUAL", n.reshape(x, (*x.shape, 1)), n.constant(keys))


def _first(n: Operation, x: Tensor, keys: Array) -> Tensor:
    """Return the index of each element among the keys; their count for an element that is not a
    key.
    """
    equal = n.cast(_matches(n, x, keys), "int32")
    end = n.constant(np.ones((*x.shape, 1), np.int32))
    axis = len(x.shape)
    ended = n.emit("CONCATENATION", equal, end, attrs=ConcatenationAttributes(axis=axis))
    return n.emit("ARG_MAX", ended, n.constant(axis, "int32"), attrs=ArgAttributes())


@translates("OneHotEncoder", domain=ML)
def one_hot_encoder(n: Operation) -> Tensor:
    """Translate ai.onnx.ml OneHotEncoder of numbers to comparisons with each category, in float32.

    Raises :class:`~hilc.errors.UnsupportedError` for texts and for ``zeros=0``.
    """
    x = n.input(0)
    if n.has_attribute("cats_strings"):
        n.refuse("encodes texts", "encode them before the model, and give it numbers")
    if not n.integer("zeros", 1):
        n.refuse("fails for what is no category (zeros=0)", "state zeros=1")
    if x.element.is_real:
        categories: Array = np.array(n.integers("cats_int64s"), np.float32)
    else:
        categories = np.array(n.integers("cats_int64s"), x.dtype)
    return n.cast(_matches(n, x, categories), "float32")


# Linear models ------------------------------------------------------------------------------------


def _weighted(n: Operation, x: Tensor, rows: int) -> Tensor:
    """Return the products with coefficients, and intercepts added."""
    coefficients = np.array(n.numbers("coefficients"), np.float32)
    if coefficients.size != rows * x.shape[1]:
        n.invalid(f"has {coefficients.size} coefficients for {rows} x {x.shape[1]}")
    intercepts = np.array(n.numbers("intercepts", ()), np.float32)
    bias = n.constant(np.broadcast_to(intercepts, (rows,))) if intercepts.size else None
    weights = n.constant(coefficients.reshape(rows, x.shape[1]))
    if x.data is not None:
        n.refuse("takes constants alone", "leave it out")
    attrs = FullyConnectedAttributes(keep_num_dims=True)
    return n.emit("FULLY_CONNECTED", x, weights, bias, attrs=attrs)


def transformed(n: Operation, scores: Tensor, stated: str | None = None) -> Tensor:
    """Return scores after a transformation, by default the one that the node states."""
    kind = n.text("post_transform", "NONE") if stated is None else stated
    if kind == "NONE":
        return scores
    if kind == "LOGISTIC":
        return n.emit("LOGISTIC", scores)
    if kind == "SOFTMAX":
        return n.emit("SOFTMAX", scores, attrs=SoftmaxAttributes(beta=1.0))
    if kind not in ("SOFTMAX_ZERO", "PROBIT"):
        n.invalid(f"has the post_transform {kind!r}")
    n.refuse(
        f"transforms scores by {kind}", "supported are the transforms NONE, LOGISTIC and SOFTMAX"
    )


def labelled(n: Operation, scores: Tensor, labels: Sequence[int]) -> Tensor:
    """Return the label of the largest score of each row; the first of equal ones."""
    best = n.emit("ARG_MAX", scores, n.constant(1, "int32"), attrs=ArgAttributes())
    table = n.constant(labels, "int64")
    return n.emit("GATHER", table, best, attrs=GatherAttributes(axis=0))


@translates("LinearRegressor", domain=ML)
def linear_regressor(n: Operation) -> Tensor:
    """Translate ai.onnx.ml LinearRegressor to a matrix product and ``post_transform``."""
    return transformed(n, _weighted(n, real(n), n.integer("targets", 1)))


@translates("LinearClassifier", domain=ML)
def linear_classifier(n: Operation) -> list[Tensor | None]:
    """Return labels and scores of linear functions; with two labels and one function, its negative
    is the score of the first.
    """
    x = real(n)
    names = n.texts("classlabels_strings", ())
    labels = n.integers("classlabels_ints", ())
    classes = len(names) or len(labels)
    rows = max(1, len(n.numbers("coefficients")) // x.shape[1])
    raw = _weighted(n, x, rows)
    if rows == 1 and classes == 2:
        sides = (n.emit("NEG", raw), raw)
        raw = n.emit("CONCATENATION", *sides, attrs=ConcatenationAttributes(axis=1))
    elif rows == 1:
        n.refuse(f"has one score for {classes} labels", "state two labels")
    if raw.shape[1] != classes:
        n.invalid(f"has {raw.shape[1]} scores for {classes} labels")
    scores = transformed(n, raw)
    # Labels that are texts are no numbers: only the scores may be read then.
    return [None if names else labelled(n, scores, labels), scores]
