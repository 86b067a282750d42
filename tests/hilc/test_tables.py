"""Operators that are tables, entry by entry, and the functions of C that some are made by."""

from __future__ import annotations

import os
import subprocess
import sys

import litert_ref
import numpy as np
import numpy.typing as npt
import pytest
import tflm
from campaigns import PARTS
from table_sweep import LACKING, SWEPT, Sweep, compare, sweep, unary

from hilc.ir import Numerics, Quant
from hilc.numerics import libm

#: Input scale and zero point, an input, and the reference's answer with output 1/128 and 0: where
#: the C library's tanhf, which is not rounded correctly, falls on the other side of a tie.
KNOWN_TANH = (
    (0.10545691102743149, 99, 86, -113),
    (0.009493738412857056, 60, -106, -118),
)

#: Bits of arguments and of the reference's answers, none of which is the nearest number.
KNOWN_BITS = {
    "expf": (
        [0x3C93F3C7, 0x3E4D72D6, 0xC07B7F40, 0xBE80BC33, 0xBEE5C3F8, 0x3BAE9140],
        [0x3F825530, 0x3F9C7049, 0x3CA0FA88, 0x3F471642, 0x3F236F6B, 0x3F80AF09],
    ),
    "tanhf": (
        [0x3FCB7A4D, 0x3E1CA8E6, 0x3EEA7550, 0xBDA4B64F, 0xBE030F62, 0x3E58353D],
        [0x3F6B8B96, 0x3E1B72EA, 0x3EDB5644, 0xBDA45BA0, 0xBE02595F, 0x3E550D25],
    ),
}
FUNCTIONS = {"expf": libm.expf, "tanhf": libm.tanhf}


def floats(bits: npt.ArrayLike) -> libm.Float32Array:
    return np.array(bits, np.uint32).view(np.float32)


def hosts_are_the_references() -> bool:
    """Whether this host's C library computes as the one that the references are defined with."""
    return all(
        (host := libm.host_function(name)) is not None
        and np.array_equal(host(floats(x)), floats(y))
        for name, (x, y) in KNOWN_BITS.items()
    )


needs_same_functions = pytest.mark.skipif(
    not hosts_are_the_references(), reason="this host's C library is not the reference's"
)


def tanh(scale: float, zero_point: int):
    return unary("TANH", Quant((scale,), (zero_point,)), Quant((1 / 128,), (0,)))


@pytest.mark.parametrize(("scale", "zero_point", "x", "expected"), KNOWN_TANH)
def test_tanh_of_the_c_library_below_the_reference(scale, zero_point, x, expected):
    assert tanh(scale, zero_point).by(Numerics.LITERT).reference()[0][x + 128] == expected


@litert_ref.needs_litert_ref
@needs_same_functions
def test_known_tables_of_tanh_are_the_references():
    found = Sweep("TANH")
    known = [tanh(scale, zero_point) for scale, zero_point, _, _ in KNOWN_TANH]
    compare(known, found, Numerics.LITERT)
    assert found == Sweep("TANH", quantizations=2, answers=512)


@litert_ref.needs_litert_ref
@needs_same_functions
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("operator", SWEPT)
def test_random_tables_are_those_of_litert_ref(operator, part):
    found = sweep(operator, 250, seed=2 * part, reference=Numerics.LITERT)
    assert found.quantizations == 250
    assert found.different == ()


@tflm.needs_tflm
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("operator", [op for op in SWEPT if op not in LACKING[Numerics.TFLM]])
def test_random_tables_are_those_of_tflm(operator, part):
    found = sweep(operator, 250, seed=2 * part + 1, reference=Numerics.TFLM)
    assert found.quantizations == 250
    assert found.different == ()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_round_as_the_references_do(name):
    x, y = map(floats, KNOWN_BITS[name])
    np.testing.assert_array_equal(FUNCTIONS[name](x), y, strict=True)


@needs_same_functions
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_equal_the_hosts_at_every_size(name):
    host = libm.host_function(name)
    assert host is not None
    x = floats(np.arange(0, 1 << 32, 99_991, dtype=np.int64))
    x = x[~np.isnan(x)]
    np.testing.assert_array_equal(FUNCTIONS[name](x), host(x), strict=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_what_is_no_number(name):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    expected = {"expf": [np.nan, np.inf, 0, 1, 1], "tanhf": [np.nan, 1, -1, 0.0, -0.0]}[name]
    y = FUNCTIONS[name](x)
    np.testing.assert_array_equal(y, np.array(expected, np.float32), strict=True)
    np.testing.assert_array_equal(np.signbit(y[1:]), np.signbit(np.array(expected)[1:]))


@pytest.mark.full
@litert_ref.needs_litert_ref
@needs_same_functions
def test_another_c_library_is_noticed_where_it_matters(tmp_path):
    """A process whose tanhf is rounded correctly, as from glibc 2.41 on."""
    (tmp_path / "tanhf.c").write_text(
        "#include <math.h>\nfloat tanhf(float x) { return (float)tanh((double)x); }\n"
    )
    library = tmp_path / "tanhf.so"
    flags = ["-O2", "-fno-builtin", "-shared", "-fPIC", "-o", library, tmp_path / "tanhf.c", "-lm"]
    subprocess.run(["cc", *flags], check=True)
    programs = []
    for case, (scale, zero_point) in {"known": KNOWN_TANH[0][:2], "other": (0.05, 0)}.items():
        model = tmp_path / f"{case}.tflite"
        model.write_bytes(tanh(scale, zero_point).tflite())
        programs.append(
            f"print(_reference(None, load_model({str(model)!r}, numerics=Numerics.LITERT), "
            f"open({str(model)!r}, 'rb').read(), Numerics.LITERT))"
        )
    code = "from hil.verify.oracle import _reference; from hilc.frontends import load_model\n"
    code += "from hilc.ir import Numerics\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "\n".join(programs)],
        env={**os.environ, "LD_PRELOAD": str(library)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    known, other = done.stdout.splitlines()
    assert "C library's tanhf rounds" in known
    assert "hilc.references._Interpreter" in known
    assert "hilc.references.tflite_runtime.TfliteRuntime" in other
