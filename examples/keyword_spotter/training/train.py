#!/usr/bin/env python3
"""Make the two models of the example, ``front_end.tflite`` and ``words.tflite``.

    PYTHONPATH=../../networks python train.py

It needs TensorFlow and TFLite Micro (``pip install -r ../../networks/requirements.txt``), and the
speech synthesizers of :mod:`speech`. ``front_end`` makes features of 20 ms of sound; ``words`` is a
small convolutional network that classifies one second of them. It is trained on the features that
TFLite Micro computes, which the compiled front end equals bit for bit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import speech
from front_end import CHANNELS, STEP, append_front_end
from speech import HELD_OUT_VOICES, HELD_OUT_WORDS, KEYWORDS, OTHER_WORDS, VOICES, Word
from tflite_file import File

HERE = Path(__file__).resolve().parent
Int8 = npt.NDArray[np.int8]
SEED = 5
#: Steps of a window: one second.
WINDOW = 50
CLASSES = ("none", *KEYWORDS)
#: Largest feature, in the logarithm's unit.
LARGEST = 10.0


def front_end() -> bytes:
    """Return the front end as a model: int16 samples to one row of int8 features."""
    file = File()
    logarithms = append_front_end(file, 7)
    features = file.output("features", (1, CHANNELS), "int8", LARGEST / 255, -128)
    file.operator("QUANTIZE", [logarithms], [features])
    return file.data()


class FrontEnd:
    """The front end in TFLite Micro."""

    def __init__(self, data: bytes) -> None:
        from tflite_micro import runtime

        self._interpreter = runtime.Interpreter.from_bytes(data)

    def rows(self, sound: npt.NDArray[np.int16]) -> Int8:
        """Return the features of each whole step of a recording, from a fresh state."""
        self._interpreter.reset()
        rows = np.zeros((sound.size // STEP, CHANNELS), np.int8)
        for index in range(len(rows)):
            self._interpreter.set_input(sound[index * STEP :][:STEP], 0)
            self._interpreter.invoke()
            rows[index] = self._interpreter.get_output(0)
        return rows


def spoken(
    keywords: int, others: int, voices: tuple[str, ...], words: tuple[str, ...], seed: int
) -> list[Word]:
    """Return each keyword ``keywords`` times, and ``others`` others, in random voices."""
    rng = np.random.default_rng(seed)
    texts = [*KEYWORDS * keywords, *rng.choice(words, others)]
    # Voices recorded from people are as many as all synthetic ones.
    share = np.array([8.0 if voice in ("slt", "awb", "kal16") else 1.0 for voice in voices])
    made = [
        speech.speak(str(t), str(rng.choice(voices, p=share / share.sum())), rng) for t in texts
    ]
    return [made[index] for index in rng.permutation(len(made))]


def windows(words: list[Word], front: FrontEnd, seed: int) -> tuple[Int8, npt.NDArray[np.int64]]:
    """Return windows of recordings of the words, three to a recording, and the class of each."""
    rng = np.random.default_rng(seed)
    found: list[Int8] = []
    labels: list[int] = []
    for begin in range(0, len(words), 3):
        group = words[begin : begin + 3]
        sound, places = speech.stream(group, rng)
        rows = front.rows(sound)
        rows = np.concatenate([np.full((WINDOW, CHANNELS), -128, np.int8), rows])
        texts = [word.text for word in group]
        for start, end in places:
            for last in _ends(start / STEP, end / STEP, rng):
                label = _label(texts, places, last)
                if label is not None and 0 <= last <= len(rows) - WINDOW:
                    found.append(rows[last : last + WINDOW])
                    labels.append(label)
    return np.stack(found), np.array(labels)


def _ends(start: float, end: float, rng: np.random.Generator) -> list[int]:
    """Return the steps at which windows end: soon after a word, while it is spoken, and later."""
    soon = end + rng.uniform(0, 13, 4)
    early, late = rng.uniform(start - 10, end), rng.uniform(end, end + WINDOW)
    return [int(np.ceil(step)) for step in (*soon, early, late)]


def _label(texts: list[str], places: list[tuple[int, int]], last: int) -> int | None:
    """Return the class of a window: the last keyword that is in it, or none; None if only a part
    of a keyword is.
    """
    label: int | None = 0
    for text, (start, end) in zip(texts, places, strict=True):
        inside = min(end, last * STEP) - max(start, (last - WINDOW) * STEP)
        share = inside / (end - start)
        if text in KEYWORDS and share > 0.4:
            label = CLASSES.index(text) if share > 0.95 else None
    return label


def network() -> Any:
    """Return a convolutional network with depthwise separable layers, 0.6 million products."""
    import keras
    from keras import layers

    x = inputs = keras.Input((WINDOW, CHANNELS, 1), 1, name="features")
    x = layers.Conv2D(24, (5, 4), 2, "same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    for filters, stride in ((32, 2), (32, 1), (48, 2)):
        x = layers.DepthwiseConv2D(3, stride, "same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.Conv2D(filters, 1, use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Dropout(0.3)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, layers.Dense(len(CLASSES), "softmax", name="scores")(x))


def train(model: Any, features: Int8, labels: npt.NDArray[np.int64]) -> None:
    import keras

    epochs, batch = 16, 64
    steps = epochs * (len(labels) // batch + 1)
    rate = keras.optimizers.schedules.CosineDecay(3e-3, steps)
    loss = keras.losses.SparseCategoricalCrossentropy()
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    model.fit(as_floats(features), labels, batch, epochs, verbose=2)


def as_floats(features: Int8) -> npt.NDArray[np.float32]:
    """Return windows in floats, with a channel."""
    return ((features[..., None] + np.float32(128)) * np.float32(LARGEST / 255)).astype(np.float32)


def converted(model: Any, features: Int8) -> bytes:
    """Return the model in int8; its input has the scale of the front end's output."""
    import tensorflow as tf

    # Both ends of the range occur, so that the converter finds the same scale.
    samples = np.concatenate([features[:400], np.full((1, WINDOW, CHANNELS), 127, np.int8)])
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([as_floats(x[None])] for x in samples)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    data: bytes = converter.convert()
    (given,) = tf.lite.Interpreter(model_content=data).get_input_details()
    scale, zero_point = given["quantization"]
    assert (zero_point, np.float32(scale)) == (-128, np.float32(LARGEST / 255)), given
    return _named(data)


def _named(data: bytes) -> bytes:
    """Return the model with short names of input and output, which the C code has, too."""
    file = File(data)
    file.graph.tensors[file.graph.inputs[0]].name = "features"
    file.graph.tensors[file.graph.outputs[0]].name = "scores"
    return file.data()


def confusion(data: bytes, features: Int8, labels: npt.NDArray[np.int64]) -> str:
    """Return a table: windows by their class (lines) and by what the int8 model says (columns)."""
    import tensorflow as tf

    interpreter = tf.lite.Interpreter(model_content=data)
    interpreter.allocate_tensors()
    (given,), (scores,) = interpreter.get_input_details(), interpreter.get_output_details()
    counts = np.zeros((len(CLASSES), len(CLASSES)), int)
    for window, label in zip(features, labels, strict=True):
        interpreter.set_tensor(given["index"], window[None, ..., None])
        interpreter.invoke()
        counts[label, interpreter.get_tensor(scores["index"])[0].argmax()] += 1
    lines = ["".join(f"{name:>7}" for name in ("", *CLASSES))]
    for name, row in zip(CLASSES, counts, strict=True):
        lines.append(f"{name:>7}" + "".join(f"{count:>7}" for count in row))
    return "\n".join([*lines, f"accuracy {counts.trace() / counts.sum():.1%}"])


def main() -> None:
    import keras

    keras.utils.set_random_seed(SEED)
    front_data = front_end()
    front = FrontEnd(front_data)
    words = spoken(500, 2600, VOICES, OTHER_WORDS, SEED)
    # Each word is heard twice, in other company.
    parts = [windows(words, front, SEED)]
    for again in (1,):
        order = np.random.default_rng(SEED + again).permutation(len(words))
        parts.append(windows([words[index] for index in order], front, SEED + again))
    features = np.concatenate([part[0] for part in parts])
    labels = np.concatenate([part[1] for part in parts])
    print(f"{len(labels)} windows, {(features == 127).mean():.2%} of the features at the limit")
    model = network()
    train(model, features, labels)
    data = converted(model, features)
    unheard = spoken(60, 240, HELD_OUT_VOICES, HELD_OUT_WORDS, SEED + 9)
    print(confusion(data, *windows(unheard, front, SEED + 9)))
    for name, content in (("front_end", front_data), ("words", data)):
        (HERE.parent / f"{name}.tflite").write_bytes(content)
        print(f"{name}.tflite: {len(content)} bytes")


if __name__ == "__main__":
    main()
