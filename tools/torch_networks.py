#!/usr/bin/env python3
"""Write networks of PyTorch as programs of ``torch.export``, in floats and in int8 of PT2E.

    python tools/measure.py torch_networks FOLDER [NAME...]

For each network NAME.float.pt2 and NAME.int8.pt2, each with NAME.KIND.npz: the inputs x0 and the
outputs y0 of eager execution, and for int8 the integers that each node of the program's graph gave,
under "layer:" and the node's name; of all samples along a new first axis.

It needs the extra ``torch``, torchvision and timm. Weights are random, from a seed; the statistics
of batch normalization are those of random inputs, so that no activation dies.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torchao.quantization.pt2e import allow_exported_model_train_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

#: Operators of torchvision's C++ part that its import wants, which no network here has: its wheel
#: fits one build of PyTorch.
for _name in ("nms", "qnms"):
    torch.library.define(
        f"torchvision::{_name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    )

import timm  # noqa: E402
import torchvision  # noqa: E402

from hilc.quantization.torch_quantizer import TorchQuantizer  # noqa: E402

CALIBRATION = 8
SAMPLES = 10
CLASSES = 10


@dataclass(frozen=True)
class Network:
    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    samples: int = SAMPLES


NETWORKS: dict[str, Network] = {}


def add(name: str, make: Callable[[], nn.Module], *shape: int, samples: int = SAMPLES) -> None:
    assert name not in NETWORKS, name
    NETWORKS[name] = Network(name, make, (1, *shape), samples)


# Networks of MLPerf Tiny --------------------------------------------------------------------------


def conv(inputs: int, outputs: int, taps: Any, stride: Any = 1, groups: int = 1) -> nn.Sequential:
    """Make a convolution, batch normalization and ReLU."""
    sides = (taps, taps) if isinstance(taps, int) else taps
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, taps, stride, tuple(side // 2 for side in sides), groups=groups,
                  bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )  # fmt: skip


def separable(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(conv(inputs, inputs, 3, stride, inputs), conv(inputs, outputs, 1))


def head(inputs: int, classes: int = CLASSES) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def anomaly_detection() -> nn.Module:
    """Make the autoencoder of MLPerf Tiny."""
    sizes = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)
    hidden = [
        layer
        for a, b in zip(sizes, sizes[1:], strict=False)
        for layer in (nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU())
    ]
    return nn.Sequential(*hidden, nn.Linear(128, 640))


def keyword_spotting() -> nn.Module:
    """Make the DS-CNN of MLPerf Tiny."""
    return nn.Sequential(
        conv(1, 64, (10, 4), 2), *(separable(64, 64) for _ in range(4)), head(64, 12), nn.Softmax(1)
    )


class Residual(nn.Module):  # type: ignore[misc]
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            conv(inputs, outputs, 3, stride),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.skip = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.main(x) + self.skip(x))


def image_classification() -> nn.Module:
    """Make the ResNet-8 of MLPerf Tiny."""
    stages = (Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2))
    return nn.Sequential(conv(3, 16, 3), *stages, head(64), nn.Softmax(1))


def visual_wake_words() -> nn.Module:
    """Make the MobileNetV1 of MLPerf Tiny, a quarter as wide as the original."""
    return mobilenet_v1(0.25, 2)


def mobilenet_v1(width: float, classes: int) -> nn.Module:
    sizes = [int(width * size) for size in (32, 64, 128, 128, 256, 256, *[512] * 6, 1024, 1024)]
    strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
    blocks = map(separable, sizes, sizes[1:], strides)
    return nn.Sequential(conv(3, sizes[0], 3, 2), *blocks, head(sizes[-1], classes))


add("anomaly_detection", anomaly_detection, 640)
add("keyword_spotting", keyword_spotting, 1, 49, 10)
add("image_classification", image_classification, 3, 32, 32)
add("visual_wake_words", visual_wake_words, 3, 96, 96, samples=3)

# Images -------------------------------------------------------------------------------------------


def of_torchvision(name: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        module = getattr(torchvision.models, name)
        return module(weights=None, **{"num_classes": CLASSES, **options})

    return make


def of_timm(name: str, **options: Any) -> Callable[[], nn.Module]:
    return lambda: timm.create_model(name, num_classes=CLASSES, **options)


def mlp_mixer() -> nn.Module:
    return timm.models.mlp_mixer.MlpMixer(CLASSES, 64, patch_size=8, num_blocks=4, embed_dim=96)


def deployed(name: str) -> Callable[[], nn.Module]:
    """Return a maker of a network whose branches are one convolution each, as it is deployed."""
    return lambda: timm.utils.reparameterize_model(of_timm(name)().eval())


def densenet() -> nn.Module:
    return torchvision.models.DenseNet(12, (6, 6, 6), 24, num_classes=CLASSES)


BIG = 2
add("mobilenet_v1", lambda: mobilenet_v1(0.5, CLASSES), 3, 64, 64, samples=BIG)
add("mobilenet_v2", of_torchvision("mobilenet_v2", width_mult=0.5), 3, 64, 64, samples=BIG)
add("mobilenet_v3", of_torchvision("mobilenet_v3_small"), 3, 64, 64, samples=BIG)
add("efficientnet_lite0", of_timm("efficientnet_lite0"), 3, 64, 64, samples=BIG)
add("efficientnet_b0", of_timm("efficientnet_b0"), 3, 64, 64, samples=BIG)
add("resnet18", of_torchvision("resnet18"), 3, 64, 64, samples=BIG)
add("squeezenet", of_torchvision("squeezenet1_1"), 3, 64, 64, samples=BIG)
add("shufflenet_v2", of_torchvision("shufflenet_v2_x0_5"), 3, 64, 64, samples=BIG)
add("mnasnet", of_torchvision("mnasnet0_5"), 3, 64, 64, samples=BIG)
add("regnet", of_torchvision("regnet_y_400mf"), 3, 64, 64, samples=BIG)
add("regnet_x", of_torchvision("regnet_x_400mf"), 3, 64, 64, samples=BIG)
add("densenet", densenet, 3, 32, 32, samples=BIG)  # fmt: skip
add("googlenet", of_torchvision("googlenet", aux_logits=False, init_weights=False), 3, 64, 64,
    samples=BIG)  # fmt: skip
add("resnext", of_timm("resnext26ts"), 3, 64, 64, samples=BIG)
add("ghostnet", of_timm("ghostnet_050"), 3, 64, 64, samples=BIG)
add("lcnet", of_timm("lcnet_050"), 3, 64, 64, samples=BIG)
add("tinynet", of_timm("tinynet_e"), 3, 64, 64, samples=BIG)
add("mobileone", deployed("mobileone_s0"), 3, 64, 64, samples=BIG)
add("repvgg", deployed("repvgg_a0"), 3, 32, 32, samples=BIG)
add("dla", of_timm("dla46x_c"), 3, 64, 64, samples=BIG)
add("mobilevit", of_timm("mobilevit_xxs"), 3, 64, 64, samples=BIG)
add("convnext", of_timm("convnext_atto"), 3, 64, 64, samples=BIG)
add("vit_tiny", of_timm("vit_tiny_patch16_224", img_size=64, depth=6), 3, 64, 64, samples=BIG)
add("mlp_mixer", mlp_mixer, 3, 64, 64, samples=BIG)


class Segmentation(nn.Module):  # type: ignore[misc]
    """LR-ASPP on MobileNetV3, without the dictionary that it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torchvision.models.segmentation.lraspp_mobilenet_v3_large(
            weights=None, weights_backbone=None, num_classes=4
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.net(x)["out"]
        return found


def twice(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(conv(inputs, outputs, 3), conv(outputs, outputs, 3))


class UNet(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        sizes = [width << level for level in range(4)]
        self.down = nn.ModuleList(map(twice, [3, *sizes], sizes))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * n, n, 2, 2) for n in sizes[-2::-1])
        self.join = nn.ModuleList(twice(2 * n, n) for n in sizes[-2::-1])
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for level, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if level else x)
            skips.append(x)
        skips.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([skips.pop(), up(x)], 1))
        return torch.sigmoid(self.last(x))


def autoencoder() -> nn.Module:
    return nn.Sequential(
        conv(1, 8, 3, 2), conv(8, 16, 3, 2), conv(16, 4, 3),
        nn.ConvTranspose2d(4, 16, 3, 2, 1, output_padding=1), nn.ReLU(),
        nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1), nn.ReLU(),
        nn.Conv2d(8, 1, 3, padding=1), nn.Sigmoid(),
    )  # fmt: skip


add("lraspp", Segmentation, 3, 64, 64, samples=BIG)
add("unet", UNet, 3, 32, 32)
add("autoencoder", autoencoder, 1, 28, 28)

# Sequences ----------------------------------------------------------------------------------------


class Dilated(nn.Module):  # type: ignore[misc]
    """A causal block of a temporal convolutional network."""

    def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
        super().__init__()
        self.past = 2 * dilation
        self.conv = nn.Conv1d(inputs, outputs, 3, dilation=dilation)
        self.norm = nn.BatchNorm1d(outputs)
        self.skip = nn.Conv1d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm(self.conv(F.pad(x, (self.past, 0)))))
        return F.relu(y + self.skip(x))


def tcn() -> nn.Module:
    blocks = (Dilated(6, 24, 1), Dilated(24, 24, 2), Dilated(24, 24, 4), Dilated(24, 24, 8))
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(24, 6))


def cnn_1d() -> nn.Module:
    """Recognition of activities by acceleration."""
    return nn.Sequential(
        nn.Conv1d(3, 16, 5, 2), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(16, 32, 3), nn.BatchNorm1d(32), nn.ReLU(), nn.AdaptiveAvgPool1d(1),
        nn.Flatten(), nn.Linear(32, 6),
    )  # fmt: skip


class Recurrent(nn.Module):  # type: ignore[misc]
    """A recurrent layer, and classes by its last output."""

    def __init__(self, kind: type[nn.Module], **options: Any) -> None:
        super().__init__()
        self.layer = kind(10, 32, batch_first=True, **options)
        self.classes = nn.Linear(64 if options.get("bidirectional") else 32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.classes(self.layer(x)[0][:, -1])
        return found


class Crnn(nn.Module):  # type: ignore[misc]
    """Convolutions over a spectrogram, then a GRU over time."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(conv(1, 16, 3, 2), conv(16, 24, 3, 2))
        self.gru = nn.GRU(24 * 5, 32, batch_first=True)
        self.classes = nn.Linear(32, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.features(x).permute(0, 2, 1, 3).flatten(2)
        found: torch.Tensor = self.classes(self.gru(y)[0][:, -1])
        return found


class Encoder(nn.Module):  # type: ignore[misc]
    """A transformer's encoder over a sequence of features."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(10, 32)
        self.place = nn.Parameter(torch.randn(1, 24, 32) * 0.1)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.classes = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.encoder(self.first(x) + self.place)
        found: torch.Tensor = self.classes(y.mean(1))
        return found


add("tcn", tcn, 6, 64)
add("cnn_1d", cnn_1d, 3, 128)
add("gru", lambda: Recurrent(nn.GRU), 16, 10)
add("lstm", lambda: Recurrent(nn.LSTM), 16, 10)
add("bidirectional_lstm", lambda: Recurrent(nn.LSTM, bidirectional=True), 16, 10)
add("crnn", Crnn, 1, 40, 20)
add("transformer_encoder", Encoder, 24, 10)


# Weights, quantization, files ---------------------------------------------------------------------


def inputs(network: Network, count: int, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(network.shape, generator=generator) for _ in range(count)]


def made(network: Network) -> nn.Module:
    """Return the module with random weights, in evaluation mode."""
    torch.manual_seed(7)
    module = network.make()
    norms = [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    with torch.no_grad():
        for part in module.modules():
            # What training starts from: all answers would be one number.
            if isinstance(part, nn.Linear) and not part.weight.any():
                part.weight.normal_(0, 0.1)
        for norm in norms:
            norm.weight.uniform_(0.8, 1.2)
            norm.bias.normal_(0.3, 0.3)
            norm.momentum = None
            norm.reset_running_stats()
        if norms:
            # Statistics are of all inputs in one batch: some layers have one element a sample.
            module.train()
            for part in module.modules():
                if isinstance(part, (nn.Dropout, timm.layers.DropPath)):
                    part.eval()
            module(torch.cat(inputs(network, CALIBRATION, 1)))
    return module.eval()


aten = torch.ops.aten
#: What is quantized in its parts.
DECOMPOSED = torch._decomp.get_decompositions((aten.lstm.input, aten.gru.input))


def quantized(network: Network, module: nn.Module) -> torch.fx.GraphModule:
    """Return the program on int8, as PT2E has it: floats that are quantized and dequantized."""
    (x,) = inputs(network, 1, 2)
    program = torch.export.export(module, (x,))
    if any(node.target in DECOMPOSED for node in program.graph.nodes):
        program = program.run_decompositions(DECOMPOSED)
    prepared = prepare_pt2e(program.module(), TorchQuantizer())
    with torch.no_grad():
        for x in inputs(network, CALIBRATION, 2):
            prepared(x)
    converted = convert_pt2e(prepared)
    return allow_exported_model_train_eval(converted)


def write(network: Network, kind: str, module: nn.Module, folder: Path) -> None:
    samples = inputs(network, network.samples, 3)
    with torch.no_grad():
        answers = [module(x) for x in samples]
    program = torch.export.export(module, (samples[0],)).run_decompositions({})
    path = folder / f"{network.name}.{kind}.pt2"
    torch.export.save(program, path)
    arrays = {"x0": samples, "y0": answers}
    if kind == "int8":
        layers = [layer_integers(program, x) for x in samples]
        arrays |= {f"layer:{name}": [each[name] for each in layers] for name in layers[0]}
    stacked: dict[str, Any] = {
        key: np.stack([each.numpy() for each in values]) for key, values in arrays.items()
    }
    np.savez_compressed(path.with_suffix(".npz"), **stacked)


class _Integers(torch.fx.Interpreter):  # type: ignore[misc]
    """Runs a graph and keeps the integers that its nodes quantize to."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[str, torch.Tensor] = {}

    def run_node(self, node: torch.fx.Node) -> Any:
        value = super().run_node(node)
        if node.target is torch.ops.quantized_decomposed.quantize_per_tensor.default:
            self.found[node.name] = value
        return value


def layer_integers(program: torch.export.ExportedProgram, x: torch.Tensor) -> dict[str, Any]:
    """Return the integers of eager execution by node."""
    interpreter = _Integers(program.module())
    with torch.no_grad():
        interpreter.run(x)
    return interpreter.found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--list", action="store_true", help="print the names of all networks")
    parser.add_argument("--kind", choices=("float", "int8"), help="one type only")
    args = parser.parse_args(arguments)
    if unknown := set(args.names) - set(NETWORKS):
        parser.error(f"unknown network {min(unknown)!r}: choose of {', '.join(NETWORKS)}")
    if args.list:
        print(*NETWORKS)
        return 0
    if args.folder is None:
        parser.error("give a folder")
    args.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    failed = []
    for network in (NETWORKS[name] for name in args.names or NETWORKS):
        start = time.monotonic()
        try:
            module = made(network)
            if args.kind != "int8":
                write(network, "float", module, args.folder)
            if args.kind != "float":
                write(network, "int8", quantized(network, copy.deepcopy(module)), args.folder)
        except Exception as error:
            failed.append(network.name)
            print(f"{network.name}: {type(error).__name__}: {str(error)[:600]}", file=sys.stderr)
            continue
        weights = sum(p.numel() for p in module.parameters())
        print(f"{network.name}: {weights:,} weights, {time.monotonic() - start:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
