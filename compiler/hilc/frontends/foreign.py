"""Model files of other programs, recognized for messages that state the remedy."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from hilc.errors import ModelError
from hilc.frontends.pytorch_files import kind_of

#: The file in each SavedModel folder of TensorFlow.
SAVED_MODEL = "saved_model.pb"
_HDF5 = b"\x89HDF"
_ZIP = b"PK\x03\x04"
#: The version of a SavedModel's schema, and the tag of its first graph.
_SAVED_MODEL_START = b"\x08\x01\x12"
#: Names of operators that begin a graph of TensorFlow 1.
_FROZEN = (b"Placeholder", b"Const")
#: Start of a file, and what it is.
_KINDS = (
    (_ZIP, "a ZIP archive (if it is a .pt2 file, it is cut off)"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\x7fELF", "an ELF program"),
    (b"\x93NUMPY", "a numpy array"),
    (b"version https://git-lfs", "a Git LFS pointer: the model itself was not downloaded"),
    (b"<", "an HTML or XML page"),
    (b"{", "a JSON text"),
)
#: The opcode of a pickle's protocol, which its number follows; joblib's files begin the same.
_PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
_PICKLE_HINT = (
    "convert the model in Python: skl2onnx.to_onnx(model, x[:1]) makes an ONNX model of one of "
    "scikit-learn, and torch.export.save writes a PyTorch module; a pickle is not loaded here, "
    "since that would run its code"
)
_FACT = "not a TFLite, ONNX or PyTorch model"
_CONVERT = "hil quantize {name} --calibration SAMPLES.npz -o MODEL.tflite makes an int8 model"
_KERAS_HINT = (
    f"convert it where TensorFlow is installed: {_CONVERT}; for float32, in Python: "
    "open('model.tflite', 'wb').write(tf.lite.TFLiteConverter.from_keras_model("
    "keras.models.load_model({name!r})).convert())"
)
_FOLDER_HINT = (
    f"convert it where TensorFlow is installed: {_CONVERT}; for float32, in Python: "
    "open('model.tflite', 'wb').write(tf.lite.TFLiteConverter.from_saved_model({name!r}).convert())"
)
_FROZEN_HINT = (
    "convert it where TensorFlow is installed, in Python: tf.compat.v1.lite.TFLiteConverter."
    "from_frozen_graph({name!r}, inputs, outputs).convert(), and write the result to a .tflite file"
)
_HINT = (
    "give a .tflite, .onnx or .pt2 file: TensorFlow's TFLiteConverter, torch.onnx and "
    "torch.export write them"
)


def is_keras_archive(data: bytes) -> bool:
    """Return whether ``data`` is a model of Keras 3: an archive with a configuration."""
    if not data.startswith(_ZIP):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {"config.json", "metadata.json"} <= set(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def is_hdf5(data: bytes) -> bool:
    """Return whether ``data`` is an HDF5 file, as earlier versions of Keras write."""
    return data.startswith(_HDF5)


def is_saved_model(path: Path) -> bool:
    """Return whether a path is a SavedModel folder of TensorFlow."""
    return (path / SAVED_MODEL).is_file()


def refuse_saved_model(path: Path) -> None:
    """Raise :class:`~hilc.errors.ModelError` with the remedy for a SavedModel folder."""
    if is_saved_model(path):
        raise ModelError(
            f"{path}: {_FACT}; this is a SavedModel folder of TensorFlow",
            _FOLDER_HINT.format(name=str(path)),
        )


def foreign(data: bytes, path: Path | None, identifier: bytes) -> ModelError:
    """Return the error for a file that no reader recognizes; ``identifier`` is that of TFLite."""
    name = "MODEL" if path is None else str(path)
    if is_keras_archive(data) or is_hdf5(data):
        kind = "a Keras HDF5 model" if is_hdf5(data) else "a Keras model (.keras)"
        return ModelError(f"{_FACT}; this is {kind}", _KERAS_HINT.format(name=name))
    if data.startswith(_SAVED_MODEL_START):
        folder = "MODEL" if path is None else str(path.parent)
        return ModelError(
            f"{_FACT}; this looks like the {SAVED_MODEL} of a TensorFlow SavedModel",
            _FOLDER_HINT.format(name=folder),
        )
    if data.startswith(b"\n") and any(name in data[:4096] for name in _FROZEN):
        return ModelError(
            f"{_FACT}; this looks like a frozen graph of TensorFlow 1",
            _FROZEN_HINT.format(name=name),
        )
    if of_pytorch := kind_of(data):
        return ModelError(f"{_FACT}; this is {of_pytorch.what}", of_pytorch.hint.format(name=name))
    if data.startswith(_PICKLES):
        kind = "a pickle of Python objects, as of scikit-learn, joblib or PyTorch"
        return ModelError(f"{_FACT}; this looks like {kind}", _PICKLE_HINT)
    for magic, kind in _KINDS:
        if data.startswith(magic):
            return ModelError(f"{_FACT}; this looks like {kind}", _HINT)
    return ModelError(
        f"{_FACT}: its identifier is {data[4:8]!r}, and that of TFLite {identifier!r}", _HINT
    )
