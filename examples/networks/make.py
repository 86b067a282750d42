#!/usr/bin/env python3
"""Make whole networks as TFLite files: each uses what an operator alone does not show.

    python make.py [NAME...]

Run it with any Python from 3.10 to 3.13: it makes the environment ``.venv`` beside itself, installs
``requirements.txt`` there, and goes on inside. Without names it makes all of them. They are written
beside this file as ``NAME.tflite``.

The small ones are trained on signals and pictures that are drawn here, so no data is downloaded;
``person`` and ``mobilenet_v2`` have random weights. Seeds are fixed: on the same kind of processor
the files are the same, byte for byte.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SEED = 11

#: Makers by the network's name.
NETWORKS: dict[str, Callable[[], bytes]] = {}


def network(make: Callable[[], bytes]) -> Callable[[], bytes]:
    NETWORKS[make.__name__] = make
    return make


# --- over time --------------------------------------------------------------------------------


@network
def denoiser() -> bytes:
    """Remove noise from sound: 16x8, convolutions and transposed convolutions with skips."""
    import keras
    import numpy as np
    from keras import layers

    rng = np.random.default_rng(SEED)
    time = np.arange(256) / 256
    pitch, phase = rng.uniform(2, 24, (2000, 3, 1)), rng.uniform(0, 7, (2000, 3, 1))
    loudness = rng.uniform(0, 0.3, (2000, 3, 1))
    clean = (loudness * np.sin(2 * np.pi * pitch * time + phase)).sum(1)[..., None]
    noisy = clean + rng.normal(0, 0.1, clean.shape)

    x = keras.Input((256, 1), 1)
    downs, y = [], x
    for filters in (8, 12, 16):
        y = layers.Conv1D(filters, 8, strides=2, padding="same")(y)
        y = layers.LeakyReLU(negative_slope=0.2)(y)
        downs.append(y)
    for filters, skip in ((12, downs[1]), (8, downs[0])):
        y = layers.Conv1DTranspose(filters, 8, strides=2, padding="same", activation="relu")(y)
        y = layers.Add()([y, skip])
    y = layers.Conv1DTranspose(1, 8, strides=2, padding="same", activation="tanh")(y)
    model = _trained(keras.Model(x, y), noisy, clean, "mse", epochs=6)
    return _converted(model, noisy[:100], "int16")


@network
def gestures() -> bytes:
    """Tell gestures by their acceleration: int8, Keras 2's LSTM as one operator."""
    import numpy as np
    import tf_keras as keras

    rng = np.random.default_rng(SEED)
    labels = rng.integers(0, 4, 1600)
    phase = rng.uniform(0, 6.3, (1600, 1)) + np.linspace(0, 6.3, 32)
    size = rng.uniform(0.6, 1.4, (1600, 1))
    curves = {
        0: (np.sin(phase), np.cos(phase)),  # a circle
        1: (np.sin(phase), np.sin(2 * phase)),  # an eight
        2: (np.sin(phase), 0 * phase),  # to and fro
        3: (0 * phase, 0 * phase),  # at rest
    }
    motion = np.zeros((1600, 32, 3))
    for label, pair in curves.items():
        for axis, values in enumerate(pair):
            motion[labels == label, :, axis] = (size * values)[labels == label]
    motion += rng.normal(0, 0.1, motion.shape)

    x = keras.Input((32, 3), 1)
    y = keras.layers.LSTM(16, return_sequences=True)(x)
    y = keras.layers.LSTM(12)(y)
    model = keras.Model(x, keras.layers.Dense(4, "softmax")(y))
    _trained(model, motion, labels, "sparse_categorical_crossentropy", epochs=8, keras=keras)
    return _converted(model, motion[:100], "int8")


@network
def rhythm() -> bytes:
    """Follow a signal by a GRU that is a loop: float32, WHILE."""
    import keras
    import numpy as np
    from keras import layers

    rng = np.random.default_rng(SEED)
    phase = rng.uniform(0, 6.3, (800, 1)) + rng.uniform(0.2, 0.8, (800, 1)) * np.arange(17)
    signal = np.sin(phase)[..., None]
    x = keras.Input((16, 1), 1)
    model = keras.Model(x, layers.Dense(1)(layers.GRU(12)(x)))
    _trained(model, signal[:, :16], signal[:, 16], "mse", epochs=10)
    return _converted(model, signal[:100, :16], "float32")


# --- images -----------------------------------------------------------------------------------


@network
def segmenter() -> bytes:
    """Find discs in a picture: int8, a U-Net that is enlarged by bilinear interpolation."""
    import keras
    from keras import layers

    pictures, masks, _ = _discs(1200, 32)
    x = keras.Input((32, 32, 1), 1)
    a = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(12, 3, padding="same", activation="relu")(layers.MaxPooling2D(2)(a))
    c = layers.Conv2D(16, 3, padding="same", activation="relu")(layers.MaxPooling2D(2)(b))
    y = layers.UpSampling2D(2, interpolation="bilinear")(c)
    y = layers.Conv2D(12, 3, padding="same", activation="relu")(layers.Concatenate()([y, b]))
    y = layers.UpSampling2D(2, interpolation="bilinear")(y)
    y = layers.Conv2D(8, 3, padding="same", activation="relu")(layers.Concatenate()([y, a]))
    model = keras.Model(x, layers.Conv2D(1, 1, activation="sigmoid")(y))
    _trained(model, pictures, masks, "binary_crossentropy", epochs=3)
    return _converted(model, pictures[:100], "int8")


@network
def detector() -> bytes:
    """Boxes around discs: int8, an SSD head, then TFLite_Detection_PostProcess on floats."""
    import keras
    import numpy as np
    import tensorflow as tf
    from keras import layers

    cells = 8
    pictures, _, boxes = _discs(1500, 64)
    centres = (np.stack(np.meshgrid(*2 * [np.arange(cells)], indexing="ij"), -1) + 0.5) / cells
    centres = centres.reshape(-1, 2)
    anchors = np.concatenate([centres, np.full_like(centres, 0.25)], 1).astype("float32")
    # As the operator decodes: offsets of centres in tenths of the anchor, sizes as logarithms.
    y0, x0, y1, x1 = np.moveaxis(boxes[:, None], -1, 0)
    centre, size = np.stack([(y0 + y1) / 2, (x0 + x1) / 2], -1), np.stack([y1 - y0, x1 - x0], -1)
    offsets = (centre - anchors[:, :2]) / anchors[:, 2:] * 10
    wanted = np.concatenate([offsets, 5 * np.log(size / anchors[:, 2:])], -1)
    hit = (np.abs(offsets) < 3).all(-1, keepdims=True)

    x = keras.Input((64, 64, 1), 1)
    y = x
    for filters in (8, 12, 16):
        y = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(y)
    y = layers.DepthwiseConv2D(3, padding="same", activation="relu")(y)
    y = layers.Conv2D(16, 1, activation="relu")(y)
    place = layers.Reshape((-1, 4))(layers.Conv2D(4, 3, padding="same")(y))
    score = layers.Reshape((-1, 1))(layers.Conv2D(1, 3, padding="same", activation="sigmoid")(y))
    model = keras.Model(x, layers.Concatenate()([place, score]))
    heads = keras.Model(x, [place, score])

    def loss(truth: Any, answer: Any) -> Any:
        disc = truth[..., 4:]
        miss = tf.abs(truth[..., :4] - answer[..., :4]) * disc
        return tf.reduce_mean(miss) + keras.losses.binary_crossentropy(disc, answer[..., 4:])

    _trained(model, pictures, np.concatenate([wanted * hit, hit], -1), loss, epochs=6)

    attributes = {
        "max_detections": "i: 4",
        "max_classes_per_detection": "i: 1",
        "num_classes": "i: 1",
        "use_regular_nms": "b: false",
        "nms_score_threshold": "f: 0.3",
        "nms_iou_threshold": "f: 0.5",
        **{f"{side}_scale": f"f: {scale}" for side, scale in (("y", 10), ("x", 10))},
        **{f"{side}_scale": f"f: {scale}" for side, scale in (("h", 5), ("w", 5))},
    }
    stated = " ".join(f'attr {{ key: "{k}" value {{ {v} }} }}' for k, v in attributes.items())

    # The converter replaces a function of this description by the operator; the body is not used.
    post_process = tf.function(
        lambda encodings, scores, anchors: tuple(tf.constant(0.0) for _ in range(4)),
        experimental_implements=f'name: "TFLite_Detection_PostProcess" {stated}',
    )

    def detect(picture: Any) -> Any:
        answers = post_process(*heads(picture, training=False), tf.constant(anchors))
        return dict(zip(("boxes", "classes", "scores", "count"), answers, strict=True))

    module = tf.Module()
    # TensorFlow does not look for variables in a model of Keras 3.
    module.weights = [variable.value for variable in model.weights]
    picture = tf.TensorSpec((1, 64, 64, 1), tf.float32, "picture")
    module.detect = tf.function(detect, input_signature=[picture])
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=module.detect)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.allow_custom_ops = True
        return _quantized(converter, pictures[:100], "int8", floats_at_the_border=True)


@network
def person() -> bytes:
    """Build the size and shape of TFLM's person detector: MobileNet 0.25 on 96x96 grey pixels."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(SEED)
    model = keras.applications.MobileNet(
        (96, 96, 1), alpha=0.25, dropout=0, weights=None, classes=2
    )
    pictures = np.random.default_rng(SEED).uniform(-1, 1, (20, 96, 96, 1))
    return _converted(_lively(model), pictures, "int8")


@network
def mobilenet_v2() -> bytes:
    """3.5 million weights: for boards with memory outside of the chip."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(SEED)
    model = keras.applications.MobileNetV2((224, 224, 3), weights=None)
    pictures = np.random.default_rng(SEED).uniform(-1, 1, (8, 224, 224, 3))
    return _converted(_lively(model), pictures, "int8")


def _discs(count: int, side: int) -> tuple[Any, Any, Any]:
    """Pictures of one disc each among noise, its pixels, its box (top, left, bottom, right)."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    y, x = np.mgrid[:side, :side] / side
    centre, radius = rng.uniform(0.25, 0.75, (count, 2)), rng.uniform(0.08, 0.22, count)
    inside = np.hypot(y - centre[:, :1, None], x - centre[:, 1:, None]) < radius[:, None, None]
    pictures = inside * rng.uniform(0.5, 1, (count, 1, 1)) + rng.normal(0, 0.15, inside.shape)
    boxes = np.concatenate([centre - radius[:, None], centre + radius[:, None]], 1)
    return pictures[..., None].astype("float32"), inside[..., None].astype("float32"), boxes


# --- training and conversion ------------------------------------------------------------------


def _trained(
    model: Any, inputs: Any, answers: Any, loss: Any, *, epochs: int, keras: Any = None
) -> Any:
    import numpy as np
    import tensorflow as tf

    keras = keras or importlib.import_module("keras")
    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(SEED)
    # With a batch of 1 the network is the one that is deployed; it is trained with a larger one.
    free = keras.Input(model.inputs[0].shape[1:])
    larger = keras.models.clone_model(model, input_tensors=free)
    larger.compile(keras.optimizers.Adam(4e-3), loss)
    larger.fit(
        inputs.astype(np.float32), answers.astype(np.float32), 32, epochs, verbose=0, shuffle=True
    )
    model.set_weights(larger.get_weights())
    return model


def _lively(model: Any) -> Any:
    """Give the model moments of batches with which random weights let signals through."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    for variable in model.weights:
        kind = variable.path.split("/")[-1]
        if kind == "moving_variance":
            variable.assign(rng.uniform(0.3, 0.7, variable.shape))
        elif kind in ("beta", "moving_mean"):
            variable.assign(rng.normal(0, 0.2, variable.shape))
    return model


def _converted(model: Any, samples: Iterable[Any], kind: str) -> bytes:
    """Convert a Keras model; ``kind`` is the type of the activations."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if kind != "float32":
        return _quantized(converter, samples, kind)
    data: bytes = converter.convert()
    return data


def _quantized(
    converter: Any, samples: Iterable[Any], kind: str, *, floats_at_the_border: bool = False
) -> bytes:
    import numpy as np
    import tensorflow as tf

    sets = tf.lite.OpsSet
    wide = sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([x[None].astype(np.float32)] for x in samples)
    converter.target_spec.supported_ops = [wide if kind == "int16" else sets.TFLITE_BUILTINS_INT8]
    if floats_at_the_border:
        converter.target_spec.supported_ops.append(sets.TFLITE_BUILTINS)
    else:
        converter.inference_input_type = converter.inference_output_type = getattr(tf, kind)
    data: bytes = converter.convert()
    return data


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    names = parser.parse_args().names or list(NETWORKS)
    if unknown := set(names) - set(NETWORKS):
        parser.error(f"unknown {', '.join(sorted(unknown))}; there are {', '.join(NETWORKS)}")
    enter_own_environment()
    for name in names:
        data = NETWORKS[name]()
        (HERE / f"{name}.tflite").write_bytes(data)
        print(f"{name}.tflite: {len(data)} bytes")


def enter_own_environment() -> None:
    """Go on in ``.venv`` beside this file, made where it is missing; TensorFlow stays there."""
    environment = HERE / ".venv"
    if Path(sys.prefix).resolve() == environment or os.environ.get("HIL_NETWORKS_HERE"):
        return
    python = environment / "bin" / "python"
    if not python.exists():
        venv.create(environment, with_pip=True, clear=True)
    requirements = HERE / "requirements.txt"
    subprocess.run([python, "-m", "pip", "install", "-q", "-r", requirements], check=True)
    os.execv(python, [str(python), str(Path(__file__).resolve()), *sys.argv[1:]])


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    main()
