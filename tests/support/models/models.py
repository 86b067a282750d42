"""The MLPerf Tiny models and real inputs for them, found once for all tests.

They are not part of this repository: the folder is named by the environment variable
``HIL_MODELS``, or is ``models`` in a folder ``shared`` beside the checkout. Where neither is there,
a test that needs a model is skipped and says how to get it; where the folder is there or was
named, a file that it lacks is a failure.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]

_FILES = {
    "ad": "ad01_int8.tflite",
    "kws": "kws_ref_model.tflite",
    "ic": "pretrainedResnet_quant.tflite",
    "vww": "vww_96_int8.tflite",
    "ad_float": "ad01_fp32.tflite",
    "kws_float": "kws_ref_model_float32.tflite",
    "ic_float": "pretrainedResnet.tflite",
    "vww_float": "vww_96_float.tflite",
}
#: Short names of the int8 models, and of their float twins.
INT8_MODELS = ("ad", "kws", "ic", "vww")
FLOAT_MODELS = ("ad_float", "kws_float", "ic_float", "vww_float")

#: Frames of the log-mel spectrogram that make up one input of the anomaly detector.
_AD_WINDOW_FRAMES = 5

HOW_TO_GET = (
    "copy the trained models of https://github.com/mlcommons/tiny (revision 1afd2c9, "
    "benchmark/training/*/trained_models) into one folder, the sample inputs into samples/ below "
    "it, and name the folder in the environment variable HIL_MODELS"
)


def models_dir() -> Path:
    """The folder that holds the models (it need not exist)."""
    named = os.environ.get("HIL_MODELS")
    return Path(named) if named else Path(__file__).resolve().parents[4] / "shared" / "models"


def _existing(path: Path) -> Path:
    if not path.is_file():
        if not models_dir().exists() and "HIL_MODELS" not in os.environ:
            pytest.skip(f"no MLPerf Tiny models: {HOW_TO_GET}")
        pytest.fail(f"the test needs {path}, which does not exist: {HOW_TO_GET}", pytrace=False)
    return path


def model_path(short_name: str) -> Path:
    """File of the model; ``kws`` is int8, ``kws_float`` its float twin, and so on."""
    return _existing(models_dir() / _FILES[short_name])


def samples(short_name: str, count: int, seed: int = 0) -> list[Array]:
    """``count`` inputs in the model's shape and type, real ones first (at most half), then random.

    A float model gets the real values that the inputs of its int8 twin stand for.
    """
    short_int8 = short_name.removesuffix("_float")
    shape, scale, zero_point = _input_of(short_int8)
    rng = np.random.default_rng(seed)
    quantized = _real_samples(short_int8, (count + 1) // 2, rng)
    while len(quantized) < count:
        quantized.append(rng.integers(-128, 128, shape).astype(np.int8))
    if short_name == short_int8:
        return quantized
    return [((q.astype(np.float32) - zero_point) * scale).astype(np.float32) for q in quantized]


def _real_samples(short_int8: str, at_most: int, rng: np.random.Generator) -> list[Array]:
    folder = models_dir() / "samples"
    shape, scale, zero_point = _input_of(short_int8)
    if short_int8 == "kws":
        return [np.load(_existing(folder / "kws_input_int8.npy"))][:at_most]
    if short_int8 == "ad":
        frames = np.load(_existing(folder / "ad_spectrogram_float32.npy"))
        starts = rng.choice(len(frames) - _AD_WINDOW_FRAMES + 1, at_most, replace=False)
        windows = [frames[s : s + _AD_WINDOW_FRAMES].reshape(shape) for s in sorted(starts)]
        return [
            np.clip(np.round(w / scale) + zero_point, -128, 127).astype(np.int8) for w in windows
        ]
    return []


@functools.cache
def _input_of(short_int8: str) -> tuple[tuple[int, ...], np.float32, int]:
    from hilc.frontends import load_model

    graph = load_model(model_path(short_int8))
    tensor = graph.tensors[graph.inputs[0]]
    assert tensor.quant is not None
    return tensor.shape, np.float32(tensor.quant.scale[0]), tensor.quant.zero_point[0]
