"""Programs of ``torch.export``: read without PyTorch, and equal to what it computes."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from pt2_files import arrays, files, inputs_of, names, shapes_of, steps

import hilc
from hilc.errors import HilError, InputError, ModelError, UnsupportedError
from hilc.frontends import Specialization, load_model, read_model, reader_of
from hilc.frontends.onnx.states import reset_values, states_of
from hilc.frontends.pt2.archive import is_pt2, read_archive
from hilc.frontends.pt2.convert import convert
from hilc.frontends.pt2.decomposable import DECOMPOSABLE
from hilc.frontends.pt2.model import translator_of
from hilc.frontends.pt2.program import read_program
from hilc.frontends.pt2.sizes import Sizes
from hilc.interpreter import Interpreter
from hilc.ir.loop_bounds import LoopBound
from hilc.ops.control_flow import WhileAttributes
from hilc.references import get_reference

#: Programs whose ONNX operators are refused, and by which words.
REFUSED: dict[str, str] = {
    "complex_tangent": "the operator aten.tan.default on complex numbers is not supported",
    "partly_in_place": "save program.run_decompositions({})",
    "item": "makes a Python number of a value known only at run time",
    "masked_entries": "makes a tensor of the shape [u0]; shapes that depend on values are not",
    "nonzero": "aten.nonzero.default makes a tensor of the shape [u0, 3]; shapes that depend on",
    "statistics": "reads output 1 of aten.native_layer_norm.default at pt2_programs.py:",
}
#: How many of the programs the interpreter computes at least; the others are refused.
COMPUTED = 312
#: Relative to the largest value: sums in another order.
TOLERANCE = 2e-6


def assert_close(found: np.ndarray, wanted: np.ndarray, name: str) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), name
    if wanted.dtype.kind == "f":
        limit = TOLERANCE * max(1.0, float(np.max(np.abs(wanted), initial=0)))
        np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=limit, err_msg=name)
    else:
        np.testing.assert_array_equal(found, wanted, err_msg=name)


def compare(run: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]], graph: hilc.Graph,
            name: str) -> None:  # fmt: skip
    """Compare the outputs of each run with those of eager execution."""
    stored = arrays(name)
    for number, suffix, wanted in steps(stored):
        values = run(inputs_of(graph, stored, suffix))
        assert len(graph.outputs) == len(wanted)
        for output, array in zip(graph.outputs, wanted, strict=True):
            assert_close(values[output], array, f"{name}, run {number}")


def test_programs_compute_what_pytorch_computed() -> None:
    """In the interpreter; how many operators of ONNX have a translator is tested with them."""
    computed = 0
    for name in names():
        try:
            graph = read_model(
                files()[f"{name}.pt2"], name, specialization=Specialization(shapes_of(name))
            ).graph
        except ModelError:
            continue
        compare(Interpreter(graph).run_all, graph, name)
        computed += 1
    assert computed >= COMPUTED


def test_programs_become_onnx_models_that_compute_it() -> None:
    """By the reference of ONNX: the translation is right whatever the compiler implements."""
    for name in set(names()) - {*REFUSED, "complex_result"}:
        program = read_program(read_archive(files()[f"{name}.pt2"]))
        model = convert(program, shapes_of(name), name)
        onnx.checker.check_model(model, full_check=True)
        evaluator, states = ReferenceEvaluator(model), states_of(model)
        values = reset_values(model.graph, states)
        stored = arrays(name)
        for number, suffix, wanted in steps(stored):
            given = {
                input_: stored.get(f"x{i}{suffix}", stored[f"x{i}"])
                for i, input_ in enumerate(program.inputs)
            }
            with np.errstate(all="ignore"):
                found = evaluator.run(None, {**given, **values})
            results = dict(zip(evaluator.output_names, found, strict=True))
            values = {before: results.pop(after) for before, after in states.items()}
            for array, result in zip(wanted, results.values(), strict=True):
                assert_close(np.asarray(result), array, f"{name}, run {number}")


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_program_is_refused_with_a_remedy(name: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        load_model(files()[f"{name}.pt2"], name)
    assert REFUSED[name] in str(caught.value)
    assert "call " in caught.value.fact
    assert ".py:" in caught.value.fact  # the user's line
    assert "getitem" not in caught.value.fact


#: What PyTorch 2.13 computes of these arguments: infinite ones, and beside and at poles.
BESIDE_POLES = {
    "lgamma": {
        np.inf: np.inf, -np.inf: np.inf, -8.9e-16: 34.655311584, 8.9e-16: 34.655311584,
        -1e-5: 11.51293087, -1.00001: 11.5115642548, -2.5: -0.05624371767, -3: np.inf, -0.0: np.inf,
        -1e10: np.inf, -12345.75: -103968.53125, 4e36: 3.3311742318676208e38,
    },
    "digamma": {
        np.inf: np.inf, -np.inf: np.nan, -8.9e-16: 1.1235955226706e15,
        8.9e-16: -1.1235955226706e15, -1e-5: 99999.421875, -1.00001: 99864.8046875,
        -2.5: 1.1031566858, -3: np.nan, -0.0: np.inf, -1e10: np.nan, -12345.75: 6.2795152664,
    },
    "special_ndtri": {
        0: -np.inf, 1: np.inf, 1e-7: -5.1993374825, 1e-30: -11.46402359, -0.1: np.nan, 1.1: np.nan,
        0.075: -1.43953144550, 0.925: 1.4395314455, 0.5: 0, 0.99999994: 5.29470396, 0.001:
        -3.0902323723, 1.2e-38: -12.9483690262,
    },
}  # fmt: skip


@pytest.mark.parametrize("function", BESIDE_POLES)
def test_special_functions_beside_poles(function: str) -> None:
    """Each value is compared alone: a large one gives the others no allowance."""
    data = edited("lgamma", MODEL, b"aten.lgamma.default", f"aten.{function}.default".encode())
    graph = load_model(data, function)
    given = np.full(arrays("lgamma")["x0"].shape, 0.3, np.float32)
    given[: len(BESIDE_POLES[function])] = list(BESIDE_POLES[function])
    found = Interpreter(graph).run_all({graph.inputs[0]: given})[graph.outputs[0]]
    for number, (x, wanted) in enumerate(BESIDE_POLES[function].items()):
        np.testing.assert_allclose(
            found[number], np.float32(wanted), TOLERANCE, TOLERANCE, err_msg=f"{function}({x})"
        )


@pytest.mark.parametrize("length", [36, 66, 72, 74, 90, 100])
def test_the_middle_frequency_is_real(length: int) -> None:
    """The angle of it is 0 or pi; an imaginary part of -1e-7 would make it -pi."""
    members = unpacked("rfft_cut")
    text = members[MODEL].replace(b'"as_int": 100}', b'"as_int": %d}' % length)
    text = text.replace(b'"as_int": 51}', b'"as_int": %d}' % (length // 2 + 1))
    graph = load_model(packed({**members, MODEL: text}), "rfft")
    x = arrays("rfft_cut")["x0"]
    found = Interpreter(graph).run_all({graph.inputs[0]: x})[graph.outputs[0]]
    wanted = np.fft.rfft(x, length, norm="ortho")
    np.testing.assert_allclose(found[..., 0], wanted.real, atol=5e-6)
    np.testing.assert_allclose(found[..., 1], wanted.imag, atol=5e-6)
    assert not found[:, [0, -1], 1].any()
    assert not np.signbit(found[:, [0, -1], 1]).any()


def test_a_complex_output_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="'view_as_complex' is of the type complex64") as e:
        load_model(files()["complex_result.pt2"], "complex_result")
    assert "torch.view_as_real" in e.value.hint


def test_a_long_transform_has_small_matrices() -> None:
    """One of 512 samples: a matrix for all of them would have a mebibyte."""
    graph = load_model(files()["convolved.pt2"], "convolved")
    constants = [t for t in graph.tensors.values() if t.is_constant and t.dtype == "float32"]
    assert max(tensor.size * 4 for tensor in constants) <= 16384


def test_states_survive_runs_and_are_reset() -> None:
    graph = load_model(files()["accumulator.pt2"], "accumulator")
    (state,) = graph.states
    assert state.name == "b_last"
    np.testing.assert_array_equal(graph.reset_value(state), np.ones((1, 4), np.float32))
    read = read_model(files()["accumulator.pt2"])
    graph, model = read.graph, read.data
    compare(get_reference("onnx", graph, model).run_all, graph, "accumulator")


@pytest.mark.parametrize("name", [
    "accumulator", "branch", "cumprod", "inverse", "loop", "other_branch", "spectrogram"
])  # fmt: skip
def test_the_generated_code_computes_it(name: str) -> None:
    """States, branches and loops, and again after a reset of the states."""
    library = hilc.compile(files()[f"{name}.pt2"], name=name)
    graph = load_model(files()[f"{name}.pt2"], name)
    with hilc.host.load(library) as model:

        def run(inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
            for input_, value in inputs.items():
                model.set_input(input_, value)
            model.run()
            return {output: model.get_output(i) for i, output in enumerate(graph.outputs)}

        compare(run, graph, name)
        model.reset_state()
        compare(run, graph, name)


def test_the_bound_of_a_loop_is_stated() -> None:
    data = files()["loop.pt2"]
    loop = load_model(data, "loop").outputs[0]
    stated = Specialization(loop_bounds={loop: 9})
    graph = read_model(data, "loop", specialization=stated).graph
    (node,) = (node for node in graph.nodes if node.op == "WHILE")
    assert isinstance(node.attrs, WhileAttributes)
    assert node.attrs.bound == LoopBound(loop, 9)
    with pytest.raises(InputError, match="has no loop 'other'"):
        read_model(data, "loop", specialization=Specialization(loop_bounds={"other": 9}))


def test_a_loop_is_called_as_its_node() -> None:
    """Also where nothing reads its first result, the number of turns."""
    data = files()["loop_value.pt2"]
    stated = Specialization(loop_bounds={"while_loop": 9})
    graph = read_model(data, "loop", specialization=stated).graph
    (node,) = (node for node in graph.nodes if node.op == "WHILE")
    assert node.name == "while_loop"
    assert isinstance(node.attrs, WhileAttributes)
    assert node.attrs.bound == LoopBound("while_loop", 9)


# Files --------------------------------------------------------------------------------------------


def packed(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def unpacked(name: str) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(files()[f"{name}.pt2"])) as archive:
        return {member: archive.read(member) for member in archive.namelist()}


def test_an_entry_beyond_every_file_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in unpacked("linear").items():
            archive.writestr(name, data)
        (model,) = (entry for entry in archive.infolist() if entry.filename == MODEL)
        model.header_offset = (1 << 64) - 1
    with pytest.raises(ModelError, match="the archive is damaged") as refused:
        load_model(file.getvalue())
    assert "inconsistent" not in refused.value.fact


def edited(name: str, path: str, old: bytes, new: bytes) -> bytes:
    members = unpacked(name)
    assert old in members[path]
    return packed({**members, path: members[path].replace(old, new)})


MODEL = "archive/models/model.json"
WEIGHTS = "archive/data/weights/model_weights_config.json"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(lambda: files()["lstm.pt2"][:-900], "cut off", id="cut"),
        pytest.param(
            lambda: packed({"serialized_exported_program.json": b"{}"}), "2.8", id="old format"
        ),
        pytest.param(
            lambda: edited("lstm", WEIGHTS, b'"use_pickle": false', b'"use_pickle": true'),
            "pickle", id="pickled weights",
        ),
        pytest.param(
            lambda: edited("lstm", WEIGHTS, b'"dtype": 7', b'"dtype": 13'), "bfloat16",
            id="type of weights",
        ),
        pytest.param(
            lambda: edited("lstm", MODEL, b'"major": 8', b'"major": 9'), "version 9", id="schema"
        ),
        pytest.param(
            lambda: edited("lstm", MODEL, b"aten.lstm.input", b"custom.lstm.input"),
            "custom.lstm", id="operator",
        ),
        pytest.param(
            lambda: edited("lstm", WEIGHTS, b'"storage_offset": {"as_int": 0}',
                           b'"storage_offset": {"as_int": 9999999}'), "takes element",
            id="outside of the storage",
        ),
    ],
)  # fmt: skip
def test_files_are_refused_by_what_is_wrong(data: Callable[[], bytes], words: str) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(data(), "broken")
    assert words in str(caught.value)
    assert caught.value.hint


_TYPED = 'File "<stdin>", line 6, in forward'
_OWN = 'File "/home/user/torch/net.py", line 7, in forward\n    return self.act(x)\n'
_OF_PYTORCH = (
    '  File "/usr/lib/python3/dist-packages/torch/nn/modules/activation.py", line 8, in forward\n'
    "    return F.relu(input)\n           ^^^^^^^^^^^^^\n"
)
_MADE = '  File "<eval_with_key>.3", line 9, in forward\n    relu = torch.relu(x)'


@pytest.mark.parametrize(
    ("trace", "source"),
    [
        pytest.param(_OWN + _OF_PYTORCH + _MADE, "net.py:7: return self.act(x)", id="own torch"),
        pytest.param(_TYPED, "<stdin>:6", id="typed"),
        pytest.param(_OF_PYTORCH + _TYPED + "\n", "<stdin>:6", id="typed, strict"),
        pytest.param(
            'File "C:\\me\\net.py", line 2, in forward\n    return x',
            "net.py:2: return x",
            id="drive",
        ),
    ],
)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target": "torch.ops.aten.igamma_.default"}, "the operator aten.igamma_.default is not"),
        ({"inputs": [{"name": "self", "arg": {"as_nested_tensors": []}}]}, "default: an argument"),
        ({"inputs": []}, "aten.relu.default has None as 'self'"),
    ],
    ids=["operator", "argument", "lacking"],
)
def test_an_error_states_the_line(
    trace: str, source: str, change: Mapping[str, Any], words: str
) -> None:
    members = unpacked("relu")
    program = json.loads(members[MODEL])
    (node,) = program["graph_module"]["graph"]["nodes"]
    node["metadata"]["stack_trace"] = trace
    node.update(change)
    with pytest.raises(ModelError) as caught:
        load_model(packed({**members, MODEL: json.dumps(program).encode()}), "relu")
    assert caught.value.fact.startswith(f"call 0 ({source}): ")
    assert words in caught.value.fact


def test_an_error_of_onnx_states_the_line() -> None:
    """What a call becomes may be refused where it is read on as ONNX."""
    with pytest.raises(UnsupportedError, match=r"\(Gelu, pt2_programs.py:[0-9]+: ") as caught:
        load_model(edited("gelu", MODEL, b'"dtype": 7', b'"dtype": 28'), "gelu")
    assert "uint16" in caught.value.fact


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialias_with_aligned_corners_is_refused(mode: str) -> None:
    """PyTorch places the windows of its filter where no coordinates of Resize do."""
    flag = b'"name": "align_corners", "arg": {"as_bool": %s}'
    data = edited(f"antialias_{mode}", MODEL, flag % b"false", flag % b"true")
    with pytest.raises(UnsupportedError, match="has antialias and align_corners") as caught:
        load_model(data, "net")
    assert f"aten._upsample_{mode}2d_aa" in caught.value.fact
    assert "use one of the two" in caught.value.hint


@pytest.mark.parametrize(
    ("operator", "helps"),
    [
        ("kron", True),
        ("cosine_similarity", True),
        ("fft_hfft", True),
        ("fft_hfft2", True),
        ("fft_ihfft", True),
        ("mvlgamma", True),
        ("polygamma", False),
        ("linalg_qr", False),
        ("svd", False),
    ],
)
def test_the_hint_decomposes_only_what_it_helps(operator: str, helps: bool) -> None:
    data = edited("relu", MODEL, b"aten.relu.default", f"aten.{operator}.default".encode())
    with pytest.raises(UnsupportedError, match=f"py:.*aten.{operator}.default") as caught:
        load_model(data, "relu")
    assert ("run_decompositions()" in caught.value.hint) == helps


def test_decomposed_operators_have_no_translator() -> None:
    assert not [n for n in sorted(DECOMPOSABLE) if translator_of(f"aten.{n}.default") is not None]


@pytest.mark.full
def test_pytorch_decomposes_the_operators_of_a_module() -> None:
    """Those without a translator, and those whose translator refuses a call."""
    torch: Any = pytest.importorskip("torch", reason="pip install 'hil-harness[torch]'")

    class Network(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            similar = torch.nn.functional.cosine_similarity(x, x.flip(0), dim=1)
            return torch.kron(similar, x[0]), torch.nn.functional.elu(x)

    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    with hilc.host.load(hilc.compile(Network().eval(), samples=x)) as model:
        model.set_input(model.inputs[0].name, x.numpy())
        model.run()
        for output, wanted in zip(model.outputs, Network()(x), strict=True):
            np.testing.assert_allclose(
                model.get_output(output.name), wanted.numpy(), rtol=1e-5, atol=1e-6
            )


@pytest.mark.full
def test_a_module_may_return_named_tuples() -> None:
    torch: Any = pytest.importorskip("torch", reason="pip install 'hil-harness[torch]'")

    class Network(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.topk(x, 2)

    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    with hilc.host.load(hilc.compile(Network().eval(), samples=x)) as model:
        model.set_input(model.inputs[0].name, x.numpy())
        model.run()
        for output, wanted in zip(model.outputs, Network()(x), strict=True):
            np.testing.assert_array_equal(model.get_output(output.name), wanted.numpy())


@pytest.mark.full
def test_a_scripted_module_is_refused() -> None:
    torch: Any = pytest.importorskip("torch", reason="pip install 'hil-harness[torch]'")
    x = torch.ones(1, 4)
    module = torch.nn.Linear(4, 2).eval()
    for scripted in (torch.jit.script(module), torch.jit.trace(module, x)):
        with pytest.raises(InputError, match="TorchScript") as caught:
            hilc.compile(scripted, samples=x)
        assert "torch.export.export(module.eval(), (x,))" in caught.value.hint
        assert "torch.onnx.export(model.eval(), (x,), 'net.onnx', dynamo=" in caught.value.hint


@pytest.mark.full
def test_a_branch_on_a_value_names_cond() -> None:
    torch: Any = pytest.importorskip("torch", reason="pip install 'hil-harness[torch]'")

    class Network(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(ModelError, match="cannot export") as caught:
        hilc.compile(Network().eval(), samples=torch.ones(2, 3))
    assert "torch.cond(" in caught.value.hint


@pytest.mark.full
def test_a_checkpoint_names_the_key_of_its_weights() -> None:
    torch: Any = pytest.importorskip("torch", reason="pip install 'hil-harness[torch]'")
    module = torch.nn.Sequential(torch.nn.Linear(4, 2))
    trained = torch.optim.Adam(module.parameters())
    module(torch.ones(1, 4)).sum().backward()
    trained.step()
    weights = module.state_dict()
    checkpoints = (
        {"epoch": 3, "model": weights},
        {"optimizer": trained.state_dict(), "model": weights},
        {"model": weights, "optimizer": trained.state_dict()},
    )
    for old in (False, True):
        for checkpoint in checkpoints:
            file = io.BytesIO()
            torch.save(checkpoint, file, _use_new_zipfile_serialization=not old)
            with pytest.raises(ModelError, match="a state_dict") as refused:
                load_model(file.getvalue())
            assert "weights_only=True)['model'])" in refused.value.hint
        file = io.BytesIO()
        torch.save(weights, file, _use_new_zipfile_serialization=not old)
        with pytest.raises(ModelError, match="a state_dict") as refused:
            load_model(file.getvalue())
        assert "weights_only=True))" in refused.value.hint
    with pytest.raises(InputError) as given:
        hilc.compile(checkpoints[0])
    assert "load_state_dict(weights['model'])" in given.value.hint


@pytest.mark.full
def test_complex_samples_are_refused() -> None:
    torch: Any = pytest.importorskip("torch", reason="pip install 'hil-harness[torch]'")
    with pytest.raises(InputError, match="samples of complex numbers") as caught:
        hilc.compile(torch.nn.Identity().eval(), samples=torch.ones(2, dtype=torch.complex64))
    assert "torch.view_as_complex" in caught.value.hint


@pytest.mark.full
def test_damaged_files_end_in_an_error_of_ours() -> None:
    """Bytes and JSON values at random; nothing else may come out, and nothing may hang."""
    draw = random.Random(7)
    members = unpacked("encoder")
    junk: tuple[object, ...] = (
        None,
        -1,
        0,
        2**70,
        1e300,
        "",
        "x",
        [],
        {},
        True,
        {"as_int": -5},
        [{}],
    )

    def spoiled(value: object) -> object:
        if isinstance(value, dict) and value and draw.random() < 0.97:
            key = draw.choice(list(value))
            return {**value, key: spoiled(value[key])}
        if isinstance(value, list) and value and draw.random() < 0.97:
            place = draw.randrange(len(value))
            return [*value[:place], spoiled(value[place]), *value[place + 1 :]]
        return draw.choice(junk)

    for number in range(300):
        if number % 3:
            path = draw.choice([MODEL, WEIGHTS])
            text = json.dumps(spoiled(json.loads(members[path]))).encode()
            data = packed({**members, path: text})
        else:
            spot = bytearray(files()["encoder.pt2"])
            for _ in range(draw.randrange(1, 8)):
                spot[draw.randrange(len(spot))] = draw.randrange(256)
            data = bytes(spot)
        with suppress(HilError):
            load_model(data, "damaged")


def test_other_archives_are_not_programs() -> None:
    assert not is_pt2(packed({"config.json": b"{}", "model.weights.h5": b""}))
    keras = {"config.json": b"{}", "metadata.json": b"{}", "model.weights.h5": b""}
    with pytest.raises(ModelError, match="Keras"):
        load_model(packed(keras), "keras")


def test_a_program_is_stored_as_onnx() -> None:
    """The library's copy needs neither PyTorch nor the archive."""
    reader = reader_of(files()["linear.pt2"])
    assert reader is not None
    assert reader.suffix == ".onnx"
    model = read_model(files()["linear.pt2"]).data
    assert onnx.load_model_from_string(model).graph.node


def test_values_of_inputs_cannot_be_stated() -> None:
    stated = Specialization(inputs={"x_0": np.zeros((2, 3, 4), np.float32)})
    with pytest.raises(InputError, match="cannot be stated"):
        read_model(files()["linear.pt2"], specialization=stated)


def test_an_archive_that_unpacks_to_too_much() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in unpacked("lstm").items():
            archive.writestr(name, data)
        archive.writestr("archive/data/weights/weight_99", bytes(64 << 20))
    with pytest.raises(ModelError, match=r"holds \d+; at most \d+ are read"):
        load_model(file.getvalue(), "bomb")


def test_files_outside_the_archive_are_refused() -> None:
    members = {**unpacked("lstm"), "../../evil.txt": b"x"}
    with pytest.raises(ModelError, match="files in 2 folders"):
        load_model(packed(members), "outside")


def test_a_program_without_a_type_is_refused() -> None:
    members = unpacked("linear")
    program = json.loads(members[MODEL])
    types = program["graph_module"]["graph"]["tensor_values"]
    for name, signature in [*types.items()]:
        del types[name]
        with pytest.raises(ModelError, match=f"'{name}'.*no type|no type for '{name}'") as refused:
            load_model(packed({**members, MODEL: json.dumps(program).encode()}), "untyped")
        assert "inconsistent" not in refused.value.fact
        types[name] = signature


@pytest.mark.parametrize("name", [{"major": 8}, ["y"], 7, None])
@pytest.mark.parametrize("where", ["output", "constant", "argument"])
def test_names_of_tensors_are_texts(name: object, where: str) -> None:
    members = unpacked("linear")
    program = json.loads(members[MODEL])
    module = program["graph_module"]
    if where == "output":
        module["signature"]["output_specs"][0]["user_output"]["arg"]["as_tensor"]["name"] = name
    elif where == "constant":
        specs = module["signature"]["input_specs"]
        (stored,) = next(spec for spec in specs if "user_input" not in spec).values()
        stored["arg"]["name"] = name
    else:
        module["graph"]["nodes"][0]["inputs"][0]["arg"]["as_tensor"]["name"] = name
    with pytest.raises(ModelError, match="an argument is .*; expected is str") as caught:
        load_model(packed({**members, MODEL: json.dumps(program).encode()}), "damaged")
    assert "inconsistent" not in caught.value.fact


# Open sizes ---------------------------------------------------------------------------------------


def opened(name: str, symbol: str) -> bytes:
    """A program whose first axis of every tensor of four is open, as an expression of PyTorch."""
    members = unpacked(name)
    program = json.loads(members[MODEL])
    graph = program["graph_module"]["graph"]
    for tensor, meta in graph["tensor_values"].items():
        if not tensor.startswith(("p_", "b_", "c_")) and meta["sizes"]:
            size = meta["sizes"][0].get("as_int")
            hint = {"as_int": size}
            meta["sizes"][0] = {"as_expr": {"expr_str": symbol, "hint": hint}}
    program["range_constraints"] = {"s77": {"min_val": 1, "max_val": None}}
    return packed({**members, MODEL: json.dumps(program).encode()})


@pytest.mark.parametrize("symbol", ["s77", "Symbol('s77', positive=True, integer=True)"])
def test_open_sizes_are_stated(symbol: str) -> None:
    data = opened("relu6", symbol)
    name = load_model(files()["relu6.pt2"], "relu6").inputs[0]
    with pytest.raises(UnsupportedError, match=r"open shape \[s77, 3, 4\]") as caught:
        load_model(data, "open")
    assert f"--shape {name}=1,3,4" in caught.value.hint
    graph = read_model(data, specialization=Specialization(shapes={name: (5, 3, 4)})).graph
    assert graph.tensors[graph.outputs[0]].shape == (5, 3, 4)
    with pytest.raises(InputError, match="does not fit"):
        read_model(data, specialization=Specialization(shapes={name: (5, 3, 5)}))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2*s0 + 1", 7),
        ("Add(Mul(Integer(2), s0), Integer(1))", 7),
        ("((s0 - 1)//2) + 1", 2),
        ("FloorDiv(s0, 2)", 1),
        ("Max(1, s0)", 3),
    ],
)
def test_expressions_of_sizes(text: str, value: int) -> None:
    assert Sizes({"s0": 3}, {}).number(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("FloatPow(ToFloat(s0), Float('0.5', precision=53))", 3**0.5),
        ("OpaqueUnaryFn_sqrt(ToFloat(s0))", 3**0.5),
        ("IntTrueDiv(s0, Integer(2))", 1.5),
        ("StrictGreaterThan(s0, Integer(3))", False),
        ("CeilToInt(IntTrueDiv(s0, 2))", 2),
    ],
)
def test_numbers_of_sizes(text: str, value: float) -> None:
    sizes = Sizes({"s0": 3}, {"n": text})
    assert sizes.symbol("n") == value
    if isinstance(value, float):
        with pytest.raises(ModelError, match="no integer"):
            sizes.number(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "s0**99",
        "FloatPow(1e9, 1e9)",
        "OpaqueUnaryFn_sqrt(-s0)",
        "s0 if 1 else 2",
        "s0.real",
        "(",
        "",
    ],
)
def test_other_expressions_are_not_evaluated(text: str) -> None:
    with pytest.raises(ModelError, match="no expression of open sizes"):
        Sizes({"s0": 3}, {}).number(text)
