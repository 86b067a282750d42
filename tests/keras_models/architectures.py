"""Networks as users of Keras 3 build them for microcontrollers, small, with weights by a seed.

Each is a function of the batch (None where it is left open) that returns a Keras model; the table
:data:`ARCHITECTURES` has them by name. TensorFlow is imported here, so only ``convert.py`` imports
this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras
from keras import layers, ops

Build = Callable[[int | None], keras.Model]

ARCHITECTURES: dict[str, Build] = {}
#: The values that an integer input takes: indices below this number.
INDICES: dict[str, int] = {}


def architecture(build: Build) -> Build:
    ARCHITECTURES[build.__name__] = build
    return build


def _conv_bn(x: Any, filters: int, size: Any = 3, activation: str = "relu", **more: Any) -> Any:
    x = layers.Conv2D(filters, size, padding="same", use_bias=False, **more)(x)
    x = layers.BatchNormalization()(x)
    return layers.Activation(activation)(x)


def _depthwise_bn(x: Any, size: int = 3, activation: str = "relu", **more: Any) -> Any:
    x = layers.DepthwiseConv2D(size, padding="same", use_bias=False, **more)(x)
    x = layers.BatchNormalization()(x)
    return layers.Activation(activation)(x)


class _Function(layers.Layer):  # type: ignore[misc]
    """A function of TensorFlow as a layer."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function

    def call(self, x: Any) -> Any:
        return self._function(x)


def _model(inputs: Any, outputs: Any) -> keras.Model:
    return keras.Model(inputs, outputs)


# --- fully connected --------------------------------------------------------------------------


@architecture
def dense(batch: int | None) -> keras.Model:
    """A classifier of features."""
    x = keras.Input((16,), batch)
    y = layers.Dense(24, "relu")(x)
    y = layers.Dropout(0.2)(y)
    y = layers.Dense(12, "tanh")(y)
    return _model(x, layers.Dense(4, "softmax")(y))


@architecture
def dense_autoencoder(batch: int | None) -> keras.Model:
    """Anomaly detection: reconstructs its input."""
    x = keras.Input((32,), batch)
    y = x
    for units in (16, 4, 16):
        y = layers.Dense(units)(y)
        y = layers.BatchNormalization()(y)
        y = layers.ReLU()(y)
    return _model(x, layers.Dense(32)(y))


@architecture
def regression(batch: int | None) -> keras.Model:
    """Normalized features; smooth activations; one number."""
    x = keras.Input((8,), batch)
    y = layers.Normalization(mean=np.linspace(-1, 1, 8), variance=np.linspace(0.5, 2, 8))(x)
    y = layers.Dense(16, "elu")(y)
    y = layers.Dense(16, "softplus")(y)
    y = layers.Dense(8, "selu")(y)
    return _model(x, layers.Dense(1)(y))


@architecture
def highway(batch: int | None) -> keras.Model:
    """Gates: t * h + (1 - t) * x."""
    x = keras.Input((16,), batch)
    y = x
    for _ in range(2):
        h = layers.Dense(16, "relu")(y)
        t = layers.Dense(16, "sigmoid")(y)
        y = layers.Add()([layers.Multiply()([t, h]), layers.Multiply()([1.0 - t, y])])
    return _model(x, layers.Dense(3, "softmax")(y))


@architecture
def maxout(batch: int | None) -> keras.Model:
    """The largest and the smallest of several layers."""
    x = keras.Input((12,), batch)
    y = layers.Maximum()([layers.Dense(10)(x) for _ in range(2)])
    z = layers.Minimum()([layers.Dense(10)(x) for _ in range(2)])
    return _model(x, layers.Dense(4)(layers.Average()([y, z])))


# --- convolutions -----------------------------------------------------------------------------


@architecture
def cnn_1d(batch: int | None) -> keras.Model:
    """Activity from three axes of acceleration."""
    x = keras.Input((32, 3), batch)
    y = layers.Conv1D(8, 5, activation="relu")(x)
    y = layers.MaxPooling1D(2)(y)
    y = layers.Conv1D(12, 3, padding="same", activation="relu")(y)
    y = layers.GlobalAveragePooling1D()(y)
    return _model(x, layers.Dense(5, "softmax")(y))


@architecture
def cnn_2d(batch: int | None) -> keras.Model:
    """LeNet."""
    x = keras.Input((16, 16, 1), batch)
    y = layers.Conv2D(6, 5, activation="tanh")(x)
    y = layers.AveragePooling2D(2)(y)
    y = layers.Conv2D(8, 3, activation="relu")(y)
    y = layers.MaxPooling2D(2)(y)
    y = layers.Flatten()(y)
    y = layers.Dense(16, "relu")(y)
    return _model(x, layers.Dense(10, "softmax")(y))


@architecture
def cnn_3d(batch: int | None) -> keras.Model:
    """A gesture in a short film."""
    x = keras.Input((6, 8, 8, 1), batch)
    y = layers.Conv3D(4, 3, activation="relu")(x)
    y = layers.Conv3D(6, 2, strides=2, activation="relu")(y)
    y = layers.Flatten()(y)
    return _model(x, layers.Dense(3, "softmax")(y))


@architecture
def pooling_3d(batch: int | None) -> keras.Model:
    x = keras.Input((4, 6, 6, 1), batch)
    y = layers.MaxPooling3D(2)(layers.Conv3D(4, 3, padding="same")(x))
    return _model(x, layers.Dense(3)(layers.Flatten()(y)))


@architecture
def ds_cnn(batch: int | None) -> keras.Model:
    """Keywords: depthwise separable convolutions over a spectrogram."""
    x = keras.Input((25, 10, 1), batch)
    y = _conv_bn(x, 8, (10, 4), strides=(2, 2))
    for _ in range(2):
        y = _depthwise_bn(y)
        y = _conv_bn(y, 8, 1)
    y = layers.AveragePooling2D((13, 5))(y)
    return _model(x, layers.Dense(6, "softmax")(layers.Flatten()(y)))


@architecture
def mobilenet_v1(batch: int | None) -> keras.Model:
    x = keras.Input((24, 24, 3), batch)
    y = layers.ZeroPadding2D(((0, 1), (0, 1)))(x)
    y = layers.Conv2D(4, 3, strides=2, use_bias=False)(y)
    y = layers.ReLU(6.0)(layers.BatchNormalization()(y))
    for filters, strides in ((8, 1), (12, 2), (16, 2)):
        y = layers.DepthwiseConv2D(3, strides, padding="same", use_bias=False)(y)
        y = layers.ReLU(6.0)(layers.BatchNormalization()(y))
        y = layers.Conv2D(filters, 1, use_bias=False)(y)
        y = layers.ReLU(6.0)(layers.BatchNormalization()(y))
    y = layers.GlobalAveragePooling2D(keepdims=True)(y)
    y = layers.Conv2D(2, 1)(y)
    return _model(x, layers.Softmax()(layers.Reshape((2,))(y)))


@architecture
def mobilenet_v2(batch: int | None) -> keras.Model:
    """Inverted residuals."""
    x = keras.Input((16, 16, 3), batch)
    y = _conv_bn(x, 6, activation="relu6", strides=2)
    for filters, strides in ((6, 1), (8, 2), (8, 1)):
        z = _conv_bn(y, 4 * y.shape[-1], 1, "relu6")
        z = _depthwise_bn(z, activation="relu6", strides=strides)
        z = _conv_bn(z, filters, 1, "linear")
        y = layers.Add()([y, z]) if y.shape == z.shape else z
    y = layers.GlobalAveragePooling2D()(y)
    return _model(x, layers.Dense(5, "softmax")(y))


@architecture
def mobilenet_v3(batch: int | None) -> keras.Model:
    """Hard swish, squeeze and excite by a hard sigmoid."""
    x = keras.Input((16, 16, 3), batch)
    y = _conv_bn(x, 8, activation="hard_swish", strides=2)
    z = _conv_bn(y, 16, 1, "hard_swish")
    z = _depthwise_bn(z, 5, "hard_swish")
    s = layers.GlobalAveragePooling2D(keepdims=True)(z)
    s = layers.Conv2D(4, 1, activation="relu")(s)
    s = layers.Conv2D(16, 1, activation="hard_sigmoid")(s)
    z = _conv_bn(layers.Multiply()([z, s]), 8, 1, "linear")
    y = layers.GlobalAveragePooling2D()(layers.Add()([y, z]))
    return _model(x, layers.Dense(4)(y))


@architecture
def efficientnet(batch: int | None) -> keras.Model:
    """Swish, squeeze and excite, scaled pixels."""
    x = keras.Input((16, 16, 3), batch)
    y = layers.Rescaling(1 / 127.5, offset=-1)(x)
    y = _conv_bn(y, 6, activation="swish", strides=2)
    z = _depthwise_bn(y, activation="swish")
    s = layers.GlobalAveragePooling2D()(z)
    s = layers.Reshape((1, 1, 6))(s)
    s = layers.Conv2D(2, 1, activation="swish")(s)
    s = layers.Conv2D(6, 1, activation="sigmoid")(s)
    z = _conv_bn(layers.Multiply()([z, s]), 6, 1, "linear")
    z = layers.Dropout(0.1, noise_shape=(None, 1, 1, 1))(z)
    y = layers.GlobalAveragePooling2D()(layers.Add()([y, z]))
    return _model(x, layers.Dense(4, "softmax")(y))


@architecture
def resnet(batch: int | None) -> keras.Model:
    x = keras.Input((12, 12, 3), batch)
    y = _conv_bn(x, 6)
    for filters, strides in ((6, 1), (10, 2)):
        z = _conv_bn(y, filters, strides=strides)
        z = _conv_bn(z, filters, activation="linear")
        if strides > 1:
            y = layers.Conv2D(filters, 1, strides=strides, padding="same")(y)
        y = layers.ReLU()(layers.Add()([y, z]))
    y = layers.AveragePooling2D(6)(y)
    return _model(x, layers.Dense(10, "softmax")(layers.Flatten()(y)))


@architecture
def resnet_v2(batch: int | None) -> keras.Model:
    """Normalized and activated before each convolution."""
    x = keras.Input((12, 12, 3), batch)
    y = layers.Conv2D(6, 3, padding="same")(x)
    for _ in range(2):
        z = layers.ReLU()(layers.BatchNormalization()(y))
        z = layers.Conv2D(6, 3, padding="same")(z)
        z = layers.ReLU()(layers.BatchNormalization()(z))
        z = layers.Conv2D(6, 3, padding="same")(z)
        y = layers.Add()([y, z])
    y = layers.GlobalMaxPooling2D()(y)
    return _model(x, layers.Dense(10)(y))


@architecture
def inception(batch: int | None) -> keras.Model:
    x = keras.Input((12, 12, 3), batch)
    y = _conv_bn(x, 6, strides=2)
    branches = [
        _conv_bn(y, 4, 1),
        _conv_bn(_conv_bn(y, 3, 1), 4, 3),
        _conv_bn(_conv_bn(_conv_bn(y, 2, 1), 4, (1, 5)), 4, (5, 1)),
        _conv_bn(layers.MaxPooling2D(3, 1, "same")(y), 4, 1),
        _conv_bn(layers.AveragePooling2D(3, 1, "same")(y), 4, 1),
    ]
    y = layers.Concatenate()(branches)
    return _model(x, layers.Dense(6, "softmax")(layers.GlobalAveragePooling2D()(y)))


@architecture
def densenet(batch: int | None) -> keras.Model:
    x = keras.Input((12, 12, 3), batch)
    y = layers.Conv2D(6, 3, padding="same")(x)
    for _ in range(3):
        z = layers.ReLU()(layers.BatchNormalization()(y))
        y = layers.Concatenate()([y, layers.Conv2D(4, 3, padding="same")(z)])
    y = layers.AveragePooling2D(2)(layers.Conv2D(8, 1)(y))
    return _model(x, layers.Dense(4, "softmax")(layers.GlobalAveragePooling2D()(y)))


@architecture
def squeezenet(batch: int | None) -> keras.Model:
    """Fire modules, squeeze and excite by fully connected layers."""
    x = keras.Input((16, 16, 3), batch)
    y = layers.Conv2D(8, 3, 2, activation="relu")(x)
    y = layers.MaxPooling2D(3, 2)(y)
    y = layers.Conv2D(4, 1, activation="relu")(y)
    y = layers.Concatenate()(
        [layers.Conv2D(8, n, padding="same", activation="relu")(y) for n in (1, 3)]
    )
    s = layers.Dense(4, "relu")(layers.GlobalAveragePooling2D()(y))
    s = layers.Reshape((1, 1, 16))(layers.Dense(16, "sigmoid")(s))
    y = layers.Conv2D(5, 1, activation="relu")(layers.Multiply()([y, s]))
    return _model(x, layers.Softmax()(layers.GlobalAveragePooling2D()(y)))


@architecture
def shufflenet(batch: int | None) -> keras.Model:
    """Halves of the channels, shuffled by a transposition."""
    x = keras.Input((12, 12, 3), batch)
    y = _conv_bn(x, 12, strides=2)
    for _ in range(2):
        a, b = ops.split(y, 2, axis=-1)
        b = _conv_bn(b, 6, 1)
        b = _conv_bn(_depthwise_bn(b, activation="linear"), 6, 1)
        y = layers.Concatenate()([a, b])
        y = layers.Reshape((6, 6, 2, 6))(y)
        y = layers.Permute((1, 2, 4, 3))(y)
        y = layers.Reshape((6, 6, 12))(y)
    return _model(x, layers.Dense(4)(layers.GlobalAveragePooling2D()(y)))


@architecture
def grouped(batch: int | None) -> keras.Model:
    """ResNeXt: convolutions in groups."""
    x = keras.Input((12, 12, 4), batch)
    y = layers.Conv2D(8, 3, groups=2, padding="same", activation="relu")(x)
    z = layers.Conv2D(8, 3, groups=4, padding="same", activation="relu")(y)
    y = layers.Add()([y, z])
    return _model(x, layers.Dense(4)(layers.GlobalAveragePooling2D()(y)))


@architecture
def separable(batch: int | None) -> keras.Model:
    """Xception: separable convolutions, multipliers of depth, leaky activations."""
    x = keras.Input((16, 16, 3), batch)
    y = layers.SeparableConv2D(8, 3, padding="same", depth_multiplier=2)(x)
    y = layers.LeakyReLU(negative_slope=0.1)(y)
    y = layers.SeparableConv2D(8, 3, strides=2, padding="same", activation="relu")(y)
    y = layers.PReLU(shared_axes=[1, 2])(y)
    y = layers.DepthwiseConv2D(3, dilation_rate=2, padding="same")(y)
    y = layers.Cropping2D(1)(y)
    return _model(x, layers.Dense(4)(layers.Flatten()(layers.MaxPooling2D(3)(y))))


@architecture
def separable_1d(batch: int | None) -> keras.Model:
    """An electrocardiogram by depthwise convolutions of one axis."""
    x = keras.Input((48, 1), batch)
    y = layers.Conv1D(8, 7, strides=2, padding="same", activation="relu")(x)
    y = layers.DepthwiseConv1D(5, padding="same", activation="relu")(y)
    y = layers.SeparableConv1D(8, 3, padding="same", activation="relu")(y)
    y = layers.AveragePooling1D(2)(y)
    y = layers.GlobalMaxPooling1D()(y)
    return _model(x, layers.Dense(5, "softmax")(y))


@architecture
def convnext(batch: int | None) -> keras.Model:
    """Depthwise 7x7, layer normalization, GELU, a scale for each channel."""
    x = keras.Input((16, 16, 3), batch)
    y = layers.Conv2D(8, 4, strides=4)(x)
    y = layers.LayerNormalization(epsilon=1e-6)(y)
    z = layers.DepthwiseConv2D(7, padding="same")(y)
    z = layers.LayerNormalization(epsilon=1e-6)(z)
    z = layers.Dense(16, "gelu")(z)
    z = layers.Dense(8)(z)
    y = layers.Add()([y, z])
    return _model(x, layers.Dense(4)(layers.GlobalAveragePooling2D()(y)))


@architecture
def spatial_attention(batch: int | None) -> keras.Model:
    """CBAM: a map from the mean and the largest of the channels."""
    x = keras.Input((12, 12, 3), batch)
    y = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    m = layers.Concatenate()(
        [ops.mean(y, axis=-1, keepdims=True), ops.max(y, axis=-1, keepdims=True)]
    )
    m = layers.Conv2D(1, 5, padding="same", activation="sigmoid")(m)
    y = layers.Multiply()([y, m])
    return _model(x, layers.Dense(4)(layers.GlobalAveragePooling2D()(y)))


# --- over time --------------------------------------------------------------------------------


@architecture
def tcn(batch: int | None) -> keras.Model:
    """Causal convolutions, dilated, with residuals."""
    x = keras.Input((32, 4), batch)
    y = layers.Conv1D(8, 1)(x)
    for dilation in (1, 2, 4):
        z = layers.Conv1D(8, 3, padding="causal", dilation_rate=dilation, activation="relu")(y)
        y = layers.Add()([y, layers.Conv1D(8, 1)(z)])
    y = y[:, -1, :]
    return _model(x, layers.Dense(4, "softmax")(y))


@architecture
def wavenet(batch: int | None) -> keras.Model:
    """Gated causal convolutions; skips are summed."""
    x = keras.Input((24, 2), batch)
    y = layers.Conv1D(6, 2, padding="causal")(x)
    skips = []
    for dilation in (1, 2):
        a, b = (
            layers.Conv1D(6, 2, padding="causal", dilation_rate=dilation, activation=f)(y)
            for f in ("tanh", "sigmoid")
        )
        z = layers.Multiply()([a, b])
        skips.append(layers.Conv1D(6, 1)(z))
        y = layers.Add()([y, layers.Conv1D(6, 1)(z)])
    y = layers.ReLU()(layers.Add()(skips))
    return _model(x, layers.Conv1D(2, 1)(y))


@architecture
def lstm(batch: int | None) -> keras.Model:
    """The default: a loop over time."""
    x = keras.Input((6, 4), batch)
    y = layers.LSTM(8)(x)
    return _model(x, layers.Dense(3, "softmax")(y))


@architecture
def lstm_fused(batch: int | None) -> keras.Model:
    """Keras 2's layer, which the converter knows as one operator."""
    x = tf_keras.Input((6, 4), batch)
    y = tf_keras.layers.LSTM(8)(x)
    return tf_keras.Model(x, tf_keras.layers.Dense(3, "softmax")(y))


@architecture
def bidirectional_fused(batch: int | None) -> keras.Model:
    """Keras 2's layers over both directions, then over their sequence."""
    x = tf_keras.Input((6, 4), batch)
    y = tf_keras.layers.Bidirectional(tf_keras.layers.LSTM(5, return_sequences=True))(x)
    y = tf_keras.layers.LSTM(4)(y)
    return tf_keras.Model(x, tf_keras.layers.Dense(3, "softmax")(y))


@architecture
def lstm_unrolled(batch: int | None) -> keras.Model:
    x = keras.Input((4, 4), batch)
    y = layers.LSTM(6, unroll=True)(x)
    return _model(x, layers.Dense(3, "softmax")(y))


@architecture
def lstm_stacked(batch: int | None) -> keras.Model:
    """Two layers, the first of which returns its sequence."""
    x = keras.Input((3, 4), batch)
    y = layers.LSTM(5, return_sequences=True, unroll=True)(x)
    y = layers.LSTM(4, unroll=True)(y)
    return _model(x, layers.Dense(2)(y))


@architecture
def gru(batch: int | None) -> keras.Model:
    """The default: a loop over time."""
    x = keras.Input((6, 4), batch)
    y = layers.GRU(8)(x)
    return _model(x, layers.Dense(3, "softmax")(y))


@architecture
def gru_unrolled(batch: int | None) -> keras.Model:
    x = keras.Input((4, 4), batch)
    y = layers.GRU(6, unroll=True)(x)
    return _model(x, layers.Dense(3, "softmax")(y))


@architecture
def bidirectional(batch: int | None) -> keras.Model:
    x = keras.Input((3, 4), batch)
    y = layers.Bidirectional(layers.LSTM(4, unroll=True))(x)
    return _model(x, layers.Dense(3, "softmax")(y))


@architecture
def simple_rnn(batch: int | None) -> keras.Model:
    x = keras.Input((5, 4), batch)
    y = layers.SimpleRNN(8, unroll=True, return_sequences=True)(x)
    y = layers.TimeDistributed(layers.Dense(4, "relu"))(y)
    return _model(x, layers.Dense(2)(layers.Flatten()(y)))


@architecture
def crnn(batch: int | None) -> keras.Model:
    """Sound events: convolutions, then a recurrent layer over the frames."""
    x = keras.Input((8, 8, 1), batch)
    y = layers.Conv2D(6, 3, padding="same", activation="relu")(x)
    y = layers.MaxPooling2D((2, 2))(y)
    y = layers.Reshape((4, 24))(y)
    y = layers.GRU(6, unroll=True)(y)
    return _model(x, layers.Dense(3, "sigmoid")(y))


@architecture
def seq2seq(batch: int | None) -> keras.Model:
    """A sequence from the last state of another."""
    x = keras.Input((3, 3), batch)
    y = layers.LSTM(4, unroll=True)(x)
    y = layers.RepeatVector(3)(y)
    y = layers.LSTM(4, unroll=True, return_sequences=True)(y)
    return _model(x, layers.TimeDistributed(layers.Dense(3))(y))


@architecture
def conv_lstm(batch: int | None) -> keras.Model:
    x = keras.Input((3, 6, 6, 1), batch)
    y = layers.ConvLSTM2D(3, 3, padding="same")(x)
    return _model(x, layers.Dense(2)(layers.GlobalAveragePooling2D()(y)))


# --- images from images -----------------------------------------------------------------------


@architecture
def conv_autoencoder(batch: int | None) -> keras.Model:
    x = keras.Input((12, 12, 1), batch)
    y = layers.Conv2D(6, 3, strides=2, padding="same", activation="relu")(x)
    y = layers.Conv2D(4, 3, strides=2, padding="same", activation="relu")(y)
    y = layers.Conv2D(6, 3, padding="same", activation="relu")(layers.UpSampling2D(2)(y))
    y = layers.UpSampling2D(2)(y)
    return _model(x, layers.Conv2D(1, 3, padding="same", activation="sigmoid")(y))


@architecture
def unet_transposed(batch: int | None) -> keras.Model:
    """Transposed convolutions on the way up."""
    x = keras.Input((16, 16, 1), batch)
    a = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(6, 3, padding="same", activation="relu")(layers.MaxPooling2D(2)(a))
    c = layers.Conv2D(8, 3, padding="same", activation="relu")(layers.MaxPooling2D(2)(b))
    y = layers.Conv2DTranspose(6, 2, strides=2, padding="same")(c)
    y = layers.Conv2D(6, 3, padding="same", activation="relu")(layers.Concatenate()([y, b]))
    y = layers.Conv2DTranspose(4, 3, strides=2, padding="same", activation="relu")(y)
    y = layers.Conv2D(4, 3, padding="same", activation="relu")(layers.Concatenate()([y, a]))
    return _model(x, layers.Conv2D(2, 1, activation="softmax")(y))


@architecture
def unet_resize(batch: int | None) -> keras.Model:
    """Bilinear interpolation on the way up."""
    x = keras.Input((16, 16, 1), batch)
    a = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(8, 3, padding="same", activation="relu")(layers.MaxPooling2D(2)(a))
    y = layers.UpSampling2D(2, interpolation="bilinear")(b)
    y = layers.Conv2D(4, 3, padding="same", activation="relu")(layers.Concatenate()([y, a]))
    return _model(x, layers.Conv2D(1, 1, activation="sigmoid")(y))


@architecture
def denoiser_1d(batch: int | None) -> keras.Model:
    """A signal without its noise: transposed convolutions of one axis."""
    x = keras.Input((32, 1), batch)
    a = layers.Conv1D(6, 4, strides=2, padding="same")(x)
    y = layers.LeakyReLU(negative_slope=0.2)(a)
    y = layers.Conv1D(8, 4, strides=2, padding="same", activation="relu")(y)
    y = layers.Conv1DTranspose(6, 4, strides=2, padding="same", activation="relu")(y)
    y = layers.Add()([y, a])
    y = layers.Conv1DTranspose(1, 4, strides=2, padding="same")(y)
    return _model(x, layers.Subtract()([x, y]))


@architecture
def super_resolution(batch: int | None) -> keras.Model:
    """Pixels from channels."""
    x = keras.Input((8, 8, 1), batch)
    y = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    y = layers.Conv2D(4, 3, padding="same")(y)
    return _model(x, _Function(lambda y: tf.nn.depth_to_space(y, 2))(y))


@architecture
def space_to_depth(batch: int | None) -> keras.Model:
    """Blocks of pixels as channels, in place of a first layer with strides."""
    x = keras.Input((16, 16, 1), batch)
    y = _Function(lambda x: tf.nn.space_to_depth(x, 4))(x)
    y = layers.Conv2D(8, 3, padding="same", activation="relu")(y)
    return _model(x, layers.Dense(3)(layers.Flatten()(y)))


# --- attention --------------------------------------------------------------------------------


@architecture
def attention(batch: int | None) -> keras.Model:
    """Softmax attention pools the frames."""
    x = keras.Input((12, 6), batch)
    h = layers.Dense(8, "tanh")(x)
    a = layers.Softmax(axis=1)(layers.Dense(1)(h))
    y = ops.sum(layers.Multiply()([h, a]), axis=1)
    return _model(x, layers.Dense(4, "softmax")(y))


@architecture
def dot_attention(batch: int | None) -> keras.Model:
    """Keras's own Attention layer."""
    x = keras.Input((8, 6), batch)
    q, k, v = (layers.Dense(6)(x) for _ in range(3))
    y = layers.Attention(use_scale=True)([q, v, k])
    return _model(x, layers.Dense(3)(layers.GlobalAveragePooling1D()(y)))


@architecture
def transformer(batch: int | None) -> keras.Model:
    """An encoder block: heads, layer normalization, GELU."""
    x = keras.Input((8, 12), batch)
    z = layers.LayerNormalization()(x)
    y = layers.Add()([x, layers.MultiHeadAttention(2, 6)(z, z)])
    z = layers.Dense(16, "gelu")(layers.LayerNormalization()(y))
    y = layers.Add()([y, layers.Dense(12)(z)])
    return _model(x, layers.Dense(3)(layers.GlobalAveragePooling1D()(y)))


@architecture
def vision_transformer(batch: int | None) -> keras.Model:
    """Patches, positions, one block."""
    x = keras.Input((16, 16, 1), batch)
    y = layers.Conv2D(8, 4, strides=4)(x)
    y = layers.Reshape((16, 8))(y)
    positions = layers.Embedding(16, 8)(ops.arange(16))
    y = y + positions
    z = layers.LayerNormalization()(y)
    y = layers.Add()([y, layers.MultiHeadAttention(1, 8)(z, z)])
    z = layers.Dense(16, "gelu")(layers.LayerNormalization()(y))
    y = layers.Add()([y, layers.Dense(8)(z)])
    return _model(x, layers.Dense(4, "softmax")(layers.GlobalAveragePooling1D()(y)))


@architecture
def mlp_mixer(batch: int | None) -> keras.Model:
    """Fully connected layers over patches, then over channels."""
    x = keras.Input((12, 12, 1), batch)
    y = layers.Conv2D(8, 4, strides=4, activation="relu")(x)
    y = layers.Reshape((9, 8))(y)
    z = layers.Permute((2, 1))(layers.BatchNormalization()(y))
    z = layers.Dense(9)(layers.Dense(12, "relu")(z))
    y = layers.Add()([y, layers.Permute((2, 1))(z)])
    z = layers.Dense(8)(layers.Dense(12, "relu")(layers.BatchNormalization()(y)))
    y = layers.Add()([y, z])
    return _model(x, layers.Dense(4)(layers.GlobalAveragePooling1D()(y)))


@architecture
def normalizations(batch: int | None) -> keras.Model:
    """By groups, by the root mean square, to unit length."""
    x = keras.Input((8, 8, 4), batch)
    y = layers.GroupNormalization(2)(layers.Conv2D(8, 3, activation="relu")(x))
    y = layers.RMSNormalization()(layers.Conv2D(6, 3)(y))
    y = layers.Dense(6)(layers.Flatten()(y))
    return _model(x, layers.UnitNormalization()(y))


# --- words, features, several inputs and outputs ----------------------------------------------


@architecture
def embedding(batch: int | None) -> keras.Model:
    """Words as vectors, their mean."""
    x = keras.Input((8,), batch, "int32", name="words")
    INDICES["words"] = 24
    y = layers.Embedding(24, 8)(x)
    y = layers.GlobalAveragePooling1D()(y)
    y = layers.Dense(8, "relu")(y)
    return _model(x, layers.Dense(1, "sigmoid")(y))


@architecture
def text_cnn(batch: int | None) -> keras.Model:
    x = keras.Input((10,), batch, "int32", name="letters")
    INDICES["letters"] = 30
    y = layers.Embedding(30, 6)(x)
    y = layers.Concatenate()(
        [layers.GlobalMaxPooling1D()(layers.Conv1D(4, n, activation="relu")(y)) for n in (2, 3, 4)]
    )
    return _model(x, layers.Dense(3, "softmax")(y))


@architecture
def one_hot(batch: int | None) -> keras.Model:
    """A category among measured features."""
    kind = keras.Input((1,), batch, "int32", name="kind")
    INDICES["kind"] = 5
    x = keras.Input((6,), batch, name="features")
    c = layers.CategoryEncoding(5, output_mode="one_hot")(kind)
    y = layers.Dense(8, "relu")(layers.Concatenate()([c, x]))
    return _model([kind, x], layers.Dense(2)(y))


@architecture
def several_inputs(batch: int | None) -> keras.Model:
    """A picture and a vector."""
    picture = keras.Input((8, 8, 1), batch, name="picture")
    vector = keras.Input((5,), batch, name="vector")
    a = layers.Flatten()(layers.Conv2D(4, 3, strides=2, activation="relu")(picture))
    b = layers.Dense(8, "relu")(vector)
    y = layers.Dense(8, "relu")(layers.Concatenate()([a, b]))
    return _model([picture, vector], layers.Dense(3, "softmax")(y))


@architecture
def several_outputs(batch: int | None) -> keras.Model:
    """A class, a place and a map."""
    x = keras.Input((12, 12, 1), batch)
    y = layers.Conv2D(6, 3, strides=2, padding="same", activation="relu")(x)
    z = layers.GlobalAveragePooling2D()(y)
    outputs = [
        layers.Dense(3, "softmax", name="class")(z),
        layers.Dense(4, "sigmoid", name="place")(z),
        layers.Conv2D(1, 1, name="map")(y),
    ]
    return _model(x, outputs)


@architecture
def siamese(batch: int | None) -> keras.Model:
    """The same layers on two inputs, their distance."""
    inputs = [keras.Input((8, 8, 1), batch, name=name) for name in ("left", "right")]
    conv, fc = layers.Conv2D(4, 3, strides=2, activation="relu"), layers.Dense(8)
    a, b = (fc(layers.Flatten()(conv(x))) for x in inputs)
    y = ops.abs(a - b)
    return _model(inputs, [layers.Dense(1, "sigmoid")(y), ops.sqrt(ops.sum(y * y, axis=-1))])


@architecture
def two_tower(batch: int | None) -> keras.Model:
    """The cosine of two vectors."""
    inputs = [keras.Input((6,), batch, name=name) for name in ("query", "item")]
    a, b = (layers.Dense(8, "tanh")(x) for x in inputs)
    return _model(inputs, layers.Dot(axes=1, normalize=True)([a, b]))


@architecture
def ssd(batch: int | None) -> keras.Model:
    """Heads of a detector on two scales."""
    x = keras.Input((16, 16, 3), batch)
    a = _conv_bn(x, 8, activation="relu6", strides=4)
    b = _conv_bn(a, 8, activation="relu6", strides=2)
    boxes, classes = [], []
    for y in (a, b):
        boxes.append(layers.Reshape((-1, 4))(layers.Conv2D(2 * 4, 3, padding="same")(y)))
        classes.append(layers.Reshape((-1, 3))(layers.Conv2D(2 * 3, 3, padding="same")(y)))
    scores = layers.Activation("sigmoid")(layers.Concatenate(axis=1)(classes))
    return _model(x, [layers.Concatenate(axis=1)(boxes), scores])


@architecture
def yolo(batch: int | None) -> keras.Model:
    """A grid of boxes: places, sizes and classes decoded in the network."""
    x = keras.Input((16, 16, 3), batch)
    y = layers.Conv2D(8, 3, 2, "same")(x)
    y = layers.LeakyReLU(negative_slope=0.1)(y)
    y = layers.MaxPooling2D(2)(y)
    y = layers.Conv2D(8, 1)(y)
    xy, wh, rest = ops.sigmoid(y[..., :2]), ops.exp(y[..., 2:4]), ops.sigmoid(y[..., 4:])
    grid = np.stack(np.meshgrid(np.arange(4), np.arange(4)), -1).astype("float32")
    return _model(x, layers.Concatenate()([(xy + grid) / 4.0, wh * 0.5, rest]))


@architecture
def best_class(batch: int | None) -> keras.Model:
    """The number of the class, not its score, by TensorFlow's function."""
    x = keras.Input((12, 12, 1), batch)
    y = layers.Conv2D(6, 3, activation="relu")(x)
    y = layers.Dense(5)(layers.GlobalMaxPooling2D()(y))
    return _model(x, _Function(lambda y: tf.argmax(y, -1, tf.int32))(y))


@architecture
def best_class_keras(batch: int | None) -> keras.Model:
    """The same by Keras's function, which looks at the sign of zeros."""
    x = keras.Input((8,), batch)
    return _model(x, ops.argmax(layers.Dense(5)(x), axis=-1))


@architecture
def preprocessing(batch: int | None) -> keras.Model:
    """Pixels as a camera gives them."""
    x = keras.Input((20, 24, 3), batch)
    y = layers.CenterCrop(16, 16)(x)
    y = layers.Resizing(12, 12)(y)
    y = layers.Rescaling(1 / 255)(y)
    y = layers.Normalization(mean=(0.4, 0.5, 0.6), variance=(0.04, 0.05, 0.06))(y)
    y = layers.Conv2D(6, 3, strides=2, activation="relu")(y)
    return _model(x, layers.Dense(3, "softmax")(layers.Flatten()(y)))


@architecture
def spectrum(batch: int | None) -> keras.Model:
    """Energies in decibels before a classifier."""
    x = keras.Input((16, 8), batch)
    y = ops.log(ops.maximum(ops.square(x), 1e-4))
    y = layers.Conv1D(8, 3, activation="relu")(y)
    return _model(x, layers.Dense(4)(layers.GlobalAveragePooling1D()(y)))


@architecture
def mel(batch: int | None) -> keras.Model:
    """Sound to a mel spectrogram in the network."""
    x = keras.Input((256,), batch)
    y = layers.MelSpectrogram(64, 32, sampling_rate=8000, num_mel_bins=8)(x)
    return _model(x, layers.Dense(3)(layers.Flatten()(y)))


@architecture
def discretized(batch: int | None) -> keras.Model:
    """Features by the bucket that they fall into."""
    x = keras.Input((4,), batch)
    y = layers.Discretization(bin_boundaries=[-1.0, 0.0, 1.0])(x)
    y = layers.Embedding(4, 3)(y)
    return _model(x, layers.Dense(2)(layers.Flatten()(y)))
