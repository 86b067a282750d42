"""The audio front end: from 16-bit samples to logarithms of a mel filter bank.

It is a chain of the signal library's operators, which TensorFlow Lite Micro and this compiler have,
so a model file computes its features on the device. State between runs is part of the operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tflite_file import File, options

#: Samples a second and a step, samples of a frame, channels of the filter bank, size of the FFT.
RATE, STEP, FRAME, CHANNELS, FFT = 16000, 320, 480, 32, 512
#: Scale of the logarithms.
LOG_SCALE = 1 / 64


def append_front_end(file: File, noise_bits: int) -> int:
    """Append the operators from samples to logarithms of channels; return these, 16 bits.

    ``noise_bits`` are the bits of fraction that the gain control assumes of its estimate of the
    noise: 7 is what the estimate has; fewer make the gain smaller, so that weak channels become 0.
    """

    def step(code: str, inputs: Sequence[int], *outputs: Any, **options: Any) -> int:
        """Return the first of the outputs."""
        made = [file.tensor(*output) for output in outputs]
        file.operator(code, inputs, made, **options)
        return made[0]

    def table(name: str, values: Any) -> int:
        return file.constant(name, np.asarray(values, np.int16))

    samples = file.input("samples", (STEP,), "int16")
    frame = step(
        "SignalFramer", [samples], ("frame", (1, FRAME), "int16"), ("is_whole", (), "bool"),
        frame_size=FRAME, frame_step=STEP, prefill=True,
    )  # fmt: skip
    one = file.tensor("one_frame", (FRAME,), "int16")
    file.operator("RESHAPE", [frame, file.constant("sizes", np.array([FRAME], np.int32))], [one],
                  options("Reshape", newShape=[FRAME]))  # fmt: skip
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(FRAME) + 0.5) / FRAME)
    windowed = step(
        "SignalWindow", [one, table("window", np.rint(hann * 4096))],
        ("windowed", (FRAME,), "int16"), shift=12,
    )  # fmt: skip
    bits = file.tensor("bits", (), "int32")
    loud = file.tensor("loud", (FRAME,), "int16")
    file.operator("SignalFftAutoScale", [windowed], [loud, bits])
    spectrum = step("SignalRfft", [loud], ("spectrum", (FFT + 2,), "int16"), T=7, fft_length=FFT)

    # Triangles that overlap by half, evenly spread over mel.
    lowest, highest = (1127 * np.log1p(hertz / 700) for hertz in (125, 7500))
    mel = np.linspace(lowest, highest, CHANNELS + 2)
    centres = 700 * np.expm1(mel / 1127) * FFT / RATE
    edges = np.ceil(centres).astype(int)
    rises: list[Any] = []
    place: list[int] = []
    first, widths = edges[:-1], np.diff(edges)
    for low, high, begin, end in zip(centres, centres[1:], edges, edges[1:], strict=False):
        place.append(sum(part.size for part in rises))
        rises.append(1 - (np.arange(begin, end) - low) / (high - low))
    falls = np.rint(np.concatenate(rises) * 4096)
    energy = step(
        "SignalEnergy", [spectrum], ("energy", (FFT // 2 + 1,), "uint32"),
        start_index=int(edges[0]), end_index=int(edges[-1]),
    )  # fmt: skip
    bank = {"falls": falls, "rises": 4096 - falls, "first": first, "place": place, "width": widths}
    tables = [table(name, values) for name, values in bank.items()]
    channels = (CHANNELS,)
    sums = step(
        "SignalFilterBank", [energy, *tables], ("sums", channels, "uint64"), num_channels=CHANNELS
    )
    roots = step("SignalFilterBankSquareRoot", [sums, bits], ("roots", channels, "uint32"))
    noise = ("noise", channels, "uint32")
    # Shares of 14 bits: the estimate follows slowly, a twentieth of the signal is left.
    less = step(
        "SignalFilterBankSpectralSubtraction", [roots], ("less", channels, "uint32"), noise,
        num_channels=CHANNELS, smoothing=410, one_minus_smoothing=15974, alternate_smoothing=983,
        alternate_one_minus_smoothing=15401, min_signal_remaining=819, smoothing_bits=10,
        spectral_subtraction_bits=14, clamping=False,
    )  # fmt: skip
    estimate = len(file.graph.tensors) - 1
    gains = table("gains", _gains(noise_bits))
    gained = step(
        "SignalPCAN", [less, estimate, gains], ("gained", channels, "uint32"), snr_shift=6
    )
    logarithms = step(
        "SignalFilterBankLog", [gained], ("logarithms", channels, "int16"),
        input_correction_bits=3, output_scale=round(1 / LOG_SCALE),
    )  # fmt: skip
    features = file.tensor("row", (1, CHANNELS), "int16", LOG_SCALE)
    sizes = file.constant("row_sizes", np.array([1, CHANNELS], np.int32))
    shape = options("Reshape", newShape=[1, CHANNELS])
    file.graph.tensors[logarithms].quantization = file.graph.tensors[features].quantization
    file.operator("RESHAPE", [logarithms, sizes], [features], shape)
    return features


def _gains(noise_bits: int) -> Any:
    """Gains by the noise of a channel, as SignalPCAN interpolates them: two for the least numbers,
    then for each number of bits the first value and two coefficients of a parabola.
    """

    def gain(noise: int) -> int:
        return int(min(np.rint(2.0**21 * (noise / 2**noise_bits + 80) ** -0.95), 32767))

    table = np.zeros(125, np.int16)
    table[:2] = gain(0), gain(1)
    for bits in range(2, 33):
        low, middle, high = (gain(n) for n in (1 << bits - 1, 3 << bits - 2, (1 << bits) - 1))
        straight = 4 * (middle - low) - (high - low)
        table[4 * bits - 6 :][:3] = low, straight, high - low - straight
    return table
