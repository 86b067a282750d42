"""TFLite files with several entry points."""

from __future__ import annotations

from tflite_builder import ModelBuilder


def filled(b: ModelBuilder, operator: str = "NEG") -> ModelBuilder:
    """Tensors 0 and 1 are the input and the output."""
    b.input("a:0", (1, 4), "float32")
    b.output("b:0", (1, 4), "float32")
    b.op(operator, ("a:0",), ("b:0",))
    return b


def two_signatures(*operators: str) -> ModelBuilder:
    """A file with a signature for each operator, called like it in small letters."""
    first, *others = operators
    b = filled(ModelBuilder(), first)
    b.functions = [filled(ModelBuilder(), other) for other in others]
    b.signatures = [(o.lower(), i, {"x": 0}, {"y": 1}) for i, o in enumerate(operators)]
    return b
