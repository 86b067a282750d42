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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tflite_file import File

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
    """Remove noise from sound, 32 samples a step: 16x8, convolutions and transposed convolutions.

    What reaches from a step into the next is state: the last inputs of each convolution, and the
    part of each transposed convolution's output that the next step adds to.
    """
    import keras
    import numpy as np
    import tensorflow as tf
    from keras import layers
    from tflite_file import File

    rng = np.random.default_rng(SEED)
    time = np.arange(256) / 256
    pitch, phase = rng.uniform(2, 24, (2000, 3, 1)), rng.uniform(0, 7, (2000, 3, 1))
    loudness = rng.uniform(0, 0.3, (2000, 3, 1))
    clean = (loudness * np.sin(2 * np.pi * pitch * time + phase)).sum(1)[..., None]
    noisy = clean + rng.normal(0, 0.1, clean.shape)

    taps, reach, step = 8, 6, 32
    downs = [layers.Conv1D(filters, taps, strides=2) for filters in (8, 12, 16)]
    ups = [
        layers.Conv1DTranspose(filters, taps, strides=2, use_bias=False) for filters in (12, 8, 1)
    ]

    def network(x: Any, joined: Any, added: Any) -> Any:
        """Return what it makes of a whole signal, or of a step of it.

        ``joined`` puts what came before in front of a convolution's input, ``added`` adds to a
        transposed convolution's output.
        """
        skips = []
        for down in downs:
            x = layers.LeakyReLU(negative_slope=0.2)(down(joined(x)))
            skips.append(x)
        for up, skip in zip(ups, (skips[1], skips[0], None), strict=True):
            x = added(up(x))
            if skip is not None:
                x = layers.ReLU()(layers.Add()([x, skip]))
        return layers.Activation("tanh")(x)

    x = keras.Input((256, 1), 1)
    whole = keras.Model(
        x, network(x, layers.ZeroPadding1D((reach, 0)), layers.Cropping1D((0, reach)))
    )
    _trained(whole, noisy, clean, "mse", epochs=6)

    old: dict[str, Any] = {}
    new: dict[str, Any] = {}

    def state(of: Any, value: Any) -> tuple[str, Any]:
        name = f"{of}{len(old)}"
        old[name] = keras.Input((reach, value.shape[-1]), 1, name=name)
        return name, old[name]

    def joined(value: Any) -> Any:
        name, before = state("last", value)
        both = layers.Concatenate(axis=1)([before, value])
        new[f"{name}_next"] = both[:, -reach:]
        return both

    def added(value: Any) -> Any:
        name, before = state("tail", value)
        new[f"{name}_next"] = value[:, -reach:]
        # Keras' own addition takes a state of one channel for a bias.
        head = layers.Lambda(lambda pair: tf.add(*pair))([value[:, :reach], before])
        return layers.Concatenate(axis=1)([head, value[:, reach:-reach]])

    samples = keras.Input((step, 1), 1, name="samples")
    cleaned = network(samples, joined, added)
    model = keras.Model({"samples": samples, **old}, {"cleaned": cleaned, **new})

    def steps() -> Iterator[dict[str, Any]]:
        for sound in noisy[:25]:
            given = {name: np.zeros(value.shape, np.float32) for name, value in old.items()}
            for start in range(0, 256, step):
                given["samples"] = sound[None, start : start + step].astype(np.float32)
                yield dict(given)
                found = model(given)
                given = {name: found[f"{name}_next"].numpy() for name in old}

    spec = {n: tf.TensorSpec(t.shape, tf.float32, n) for n, t in model.input.items()}
    module = tf.Module()
    module.weights = [variable.value for variable in model.weights]
    # The signature's names are those of the arguments.
    module.step = tf.function(lambda **given: model(given)).get_concrete_function(**spec)
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=module.step)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        file = File(_quantized(converter, steps(), "int16"))
    file.keep({name: f"{name}_next" for name in old})
    return file.data()


@network
def keywords() -> bytes:
    """Tell three spoken sounds from noise, 20 ms a step, from samples to labels: int8, SVDF.

    The front end is made of the signal library's operators; TFLite Micro itself computes what the
    network is trained with.
    """
    import keras
    import numpy as np
    from front_end import CHANNELS, LOG_SCALE, STEP, append_front_end
    from keras import layers
    from tflite_file import File, options
    from tflite_micro import runtime

    frames, counts, memories = 24, (24, 16), (10, 8)
    sounds, labels = _words(1600, frames * STEP)
    front = File()
    front.graph.outputs.append(append_front_end(front, _NOISE_BITS))
    interpreter = runtime.Interpreter.from_bytes(front.data())
    heard = np.zeros((len(sounds), frames, CHANNELS), np.int16)
    for sound, features in zip(sounds, heard, strict=True):
        interpreter.reset()
        for index in range(frames):
            interpreter.set_input(sound[index * STEP :][:STEP], 0)
            interpreter.invoke()
            features[index] = interpreter.get_output(0)
    given = heard * LOG_SCALE

    x = keras.Input((frames, CHANNELS), 1)
    y, layers_of_memory = x, []
    for units, memory in zip(counts, memories, strict=True):
        feature = layers.Dense(units, use_bias=False)
        moments = layers.DepthwiseConv1D(memory, bias_initializer="zeros")
        y = feature(y)
        y = layers.ReLU()(moments(layers.ZeroPadding1D((memory - 1, 0))(y)))
        layers_of_memory.append((feature, moments))
    classes = layers.Dense(4)
    logits = classes(y[:, -1])
    model = keras.Model(x, layers.Softmax()(logits))
    _trained(model, given, labels, "sparse_categorical_crossentropy", epochs=12)

    # The ranges of what is computed at run time.
    parts = [tensor for pair in layers_of_memory for tensor in (pair[0].output, pair[1].output)]
    ranges = keras.Model(x, [*parts, logits])
    largest = [0.0] * (len(parts) + 1)
    for sample in given[:200]:
        for index, value in enumerate(ranges(sample[None].astype(np.float32))):
            largest[index] = max(largest[index], float(np.abs(value).max()))

    file = File()
    logarithms = append_front_end(file, _NOISE_BITS)
    scale = float(given.max()) / 255
    before = file.tensor("features", (1, CHANNELS), "int8", scale, -128)
    file.operator("QUANTIZE", [logarithms], [before])
    for index, (feature, moments) in enumerate(layers_of_memory):
        before, scale = _svdf(
            file,
            f"memory{index}",
            (before, scale),
            feature.kernel.numpy().T,
            moments.kernel.numpy()[:, :, 0].T,
            moments.bias.numpy(),
            (largest[2 * index], largest[2 * index + 1]),
        )
    weights, weights_scale = _rounded(classes.kernel.numpy().T, 127, np.int8)
    bias = np.rint(classes.bias.numpy() / (scale * weights_scale)).astype(np.int32)
    out = file.tensor("logits", (1, 4), "int8", largest[-1] / 127, 0)
    constants = [
        file.constant("classes", weights, weights_scale),
        file.constant("classes_bias", bias, scale * weights_scale),
    ]
    file.operator("FULLY_CONNECTED", [before, *constants], [out], options("FullyConnected"))
    label = file.output("label", (1, 4), "int8", 1 / 256, -128)
    file.operator("SOFTMAX", [out], [label], options("Softmax", beta=1.0))
    return file.data()


#: The front end's gain in ``keywords``: weak channels become 0.
_NOISE_BITS = 3


def _words(count: int, samples: int) -> tuple[Any, Any]:
    """Noise, and tones that rise, fall or warble, of voices of several heights; what each is."""
    import numpy as np
    from front_end import RATE, STEP

    rng = np.random.default_rng(SEED)
    labels = rng.integers(0, 4, count)
    sounds = rng.normal(0, 1, (count, samples)) * rng.uniform(20, 200, (count, 1))
    for sound, label in zip(sounds, labels, strict=True):
        length = int(rng.uniform(0.22, 0.32) * RATE)
        way = np.linspace(0, 1, length)
        curve = (0 * way, way, 1 - way, 0.5 + 0.5 * np.sin(2 * np.pi * rng.uniform(3, 5) * way))
        pitch = rng.uniform(150, 400) * 2 ** (2 * curve[label])
        phase = 2 * np.pi * np.cumsum(pitch) / RATE
        voice = sum(np.sin(n * phase + rng.uniform(0, 6)) / n for n in range(1, 9))
        end = samples - int(rng.uniform(0, 2) * STEP)
        loud = rng.uniform(300, 4000) * np.sin(np.pi * way) ** 0.5 * (label > 0)
        sound[end - length : end] += loud * voice
    return np.clip(sounds, -32768, 32767).astype(np.int16), labels


def _rounded(values: Any, largest: int, dtype: Any) -> tuple[Any, float]:
    """Quantize weights from ``-largest`` to ``largest``; return them and their scale."""
    import numpy as np

    scale = float(np.float32(np.abs(values).max() / largest))
    return np.rint(values / scale).clip(-largest, largest).astype(dtype), scale


def _svdf(
    file: File,
    name: str,
    given: tuple[int, float],
    features: Any,
    moments: Any,
    bias: Any,
    largest: tuple[float, float],
) -> tuple[int, float]:
    """Append a layer of units with memory; return its output and that one's scale."""
    import numpy as np
    from tflite_file import options

    x, x_scale = given
    units, memory = moments.shape
    features, features_scale = _rounded(features, 127, np.int8)
    # Products with states are added in 32 bits.
    moments, moments_scale = _rounded(moments, 2047, np.int16)
    state_scale, scale = largest[0] / 32767, largest[1] / 255
    bias_scale = state_scale * moments_scale
    operands = [
        x,
        file.constant(f"{name}_features", features, features_scale),
        file.constant(f"{name}_moments", moments, moments_scale),
        file.constant(f"{name}_bias", np.rint(bias / bias_scale).astype(np.int32), bias_scale),
        file.tensor(f"{name}_state", (1, units * memory), "int16", state_scale, variable=True),
    ]
    y = file.tensor(name, (1, units), "int8", scale, -128)
    file.operator("SVDF", operands, [y], options("SVDF", rank=1, fusedActivationFunction=1))
    return y, scale


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
    given = list(samples)
    converter.representative_dataset = lambda: (
        x if isinstance(x, dict) else [x[None].astype(np.float32)] for x in given
    )
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
    if len(names) > 1:
        # Each in a process of its own: Keras and TensorFlow count what they name.
        for name in names:
            subprocess.run([sys.executable, Path(__file__).resolve(), name], check=True)
        return
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
