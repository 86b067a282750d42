#!/usr/bin/env python3
"""Trains the digits classifier, quantizes it to int8, exports it with TensorFlow's converter.

Run it with any Python from 3.10 to 3.12: it makes the environment ``.venv`` beside itself, installs
``requirements.txt`` there, and goes on inside. It writes, beside itself,

* ``digits.tflite``: the model, int8 from input to output;
* ``digits_test.npz``: the held-out images as the model's input takes them, under the input's name;
* ``digits_labels.npy``: the digit that each of them shows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SEED = 7
HELD_OUT = 360
EPOCHS = 40
LEAST_ACCURACY = 0.97


def main() -> None:
    """Make the three files anew."""
    train_images, test_images, train_labels, test_labels = load_digits()
    model = train(train_images, train_labels)
    flatbuffer = convert(model, train_images)
    inputs, accuracy = evaluate(flatbuffer, test_images, test_labels)
    if accuracy < LEAST_ACCURACY:
        sys.exit(f"accuracy {accuracy:.4f} on the held-out images is below {LEAST_ACCURACY}")
    write(flatbuffer, inputs, test_labels)
    print(
        f"{len(flatbuffer)} bytes; {accuracy:.2%} of {len(test_labels)} held-out images are right"
    )


def load_digits() -> Any:
    """Scikit-learn's 8x8 digits as float images from 0 to 1; a part is held out."""
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    digits = load()
    images = (digits.images / 16).astype("float32")[..., None]
    return train_test_split(
        images, digits.target, test_size=HELD_OUT, random_state=SEED, stratify=digits.target
    )


def build() -> Any:
    """Return the network: about 6 KB of weights and 1.3 KB of working memory once quantized."""
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu", name="edges"),
            layers.DepthwiseConv2D(3, strides=2, padding="same", activation="relu", name="shapes"),
            layers.Conv2D(32, 3, padding="same", activation="relu", name="strokes"),
            layers.MaxPooling2D(2, name="pool"),
            layers.Flatten(name="flat"),
            layers.Dense(10, name="logits"),
            layers.Softmax(name="digit"),
        ],
        name="digits",
    )


def train(images: Any, labels: Any) -> Any:
    """Return a trained network; equal on every run on the same kind of processor."""
    import keras
    import numpy as np
    import tensorflow as tf

    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()
    shifts = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if abs(y) + abs(x) <= 1]
    shifted = np.concatenate([np.roll(images, shift, axis=(1, 2)) for shift in shifts])
    model = build()
    steps = EPOCHS * len(shifted) // 64
    model.compile(
        optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(4e-3, steps)),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(shifted, np.tile(labels, len(shifts)), batch_size=64, epochs=EPOCHS, verbose=2)
    return model


def convert(model: Any, images: Any) -> bytes:
    """Return the model as a TFLite file whose every tensor is integer, calibrated on ``images``."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    classify = tf.function(
        lambda image: model(image, training=False),
        input_signature=[tf.TensorSpec((1, 8, 8, 1), tf.float32, name="image")],
    )
    # The converter does not follow Keras's variables into a function; frozen, there are none.
    frozen = convert_variables_to_constants_v2(classify.get_concrete_function())
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([image[None]] for image in images[:500])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = tf.int8
    converter.inference_output_type = tf.int8
    flatbuffer: bytes = converter.convert()
    return flatbuffer


def evaluate(flatbuffer: bytes, images: Any, labels: Any) -> tuple[Any, float]:
    """Return the images as the quantized model takes them, and its accuracy on them."""
    import numpy as np
    import tensorflow as tf

    interpreter = tf.lite.Interpreter(model_content=flatbuffer)
    interpreter.allocate_tensors()
    (entry,) = interpreter.get_input_details()
    (answer,) = interpreter.get_output_details()
    scale, zero_point = entry["quantization"]
    quantized = np.clip(np.round(images / scale) + zero_point, -128, 127).astype(np.int8)
    right = 0
    for image, label in zip(quantized, labels, strict=True):
        interpreter.set_tensor(entry["index"], image[None])
        interpreter.invoke()
        right += int(np.argmax(interpreter.get_tensor(answer["index"])) == label)
    return {entry["name"]: quantized}, right / len(labels)


def write(flatbuffer: bytes, inputs: Any, labels: Any) -> None:
    """Write the three files of the example."""
    import numpy as np

    (HERE / "digits.tflite").write_bytes(flatbuffer)
    np.savez_compressed(HERE / "digits_test.npz", **inputs)
    np.save(HERE / "digits_labels.npy", labels.astype(np.int8))


def enter_own_environment() -> None:
    """Goes on in ``.venv`` beside this file, made where it is missing; TensorFlow stays there."""
    environment = HERE / ".venv"
    if Path(sys.prefix).resolve() == environment:
        return
    python = environment / "bin" / "python"
    if not python.exists():
        venv.create(environment, with_pip=True, clear=True)
    requirements = HERE / "requirements.txt"
    subprocess.run([python, "-m", "pip", "install", "-q", "-r", requirements], check=True)
    os.execv(python, [str(python), str(Path(__file__).resolve())])


if __name__ == "__main__":
    enter_own_environment()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    main()
