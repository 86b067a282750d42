"""Models of Keras and TensorFlow as TFLite files in floats, by TensorFlow's converter."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hilc.errors import ModelError
from hilc.frontends.foreign import is_hdf5, is_keras_archive, is_saved_model
from hilc.support.optional import require

_PURPOSE = "the conversion of Keras and TensorFlow models"


def is_convertible(path: Path) -> bool:
    """Return whether a path is a Keras model (``.keras``, ``.h5``) or a SavedModel folder."""
    if path.is_dir():
        return is_saved_model(path)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(8)
    return is_hdf5(head) or is_keras_archive(head and path.read_bytes())


def converted(model: Any) -> bytes:
    """Return a model of Keras, its file or a SavedModel folder as a TFLite file in floats.

    Raise :class:`~hilc.errors.InputError` without TensorFlow and
    :class:`~hilc.errors.ModelError` if TensorFlow cannot load or convert the model.
    """
    # Read by TensorFlow when it is imported: errors alone, as hil reports the others.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with _silent():
        tensorflow = require("tensorflow", _PURPOSE)
        converter = tensorflow.lite.TFLiteConverter
        try:
            if isinstance(model, Path) and model.is_dir():
                return bytes(converter.from_saved_model(str(model)).convert())
            if isinstance(model, Path):
                model = tensorflow.keras.models.load_model(model, compile=False)
            return bytes(converter.from_keras_model(model).convert())
        except Exception as error:
            raise conversion_error(str(error)) from error


def conversion_error(text: str) -> ModelError:
    """Return the error for what TensorFlow writes when it cannot load or convert a model."""
    # Of a line of MLIR the fact alone: the place in the converted code before it is longer.
    facts = re.findall(r"error: loc\(.*\): (.+)", text)
    fact = " ".join((facts[0] if facts else text).split())
    hint = (
        "state the batch, keras.Input(shape, batch_size=1), or unroll the recurrent layers: "
        "LSTM(units, unroll=True)"
        if "TensorListReserve" in text
        else "convert the model to a float32 .tflite file with tf.lite.TFLiteConverter and options "
        "of your own, and quantize that"
    )
    return ModelError(f"TensorFlow cannot convert the model: {fact:.300}", hint)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep TensorFlow's progress from standard output, which may carry JSON."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
