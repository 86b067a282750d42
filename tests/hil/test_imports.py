"""Modules for users are there at once, and cost nobody who does not use them."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> str:
    """What a new interpreter prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.full
def test_modules_of_guides_need_no_own_import() -> None:
    """``import hilc`` and then ``hilc.host.load``, as the README says."""
    names = "hilc.host.load, hilc.executor.Executor, hilc.references.get_reference"
    assert run(f"import hilc; print(all([{names}]))") == "True"
    names = "hil.verify, hil.bench, hil.device.Device, hil.open, hil.oracle"
    assert run(f"import hil; print(all([{names}]))") == "True"


def test_they_are_loaded_when_they_are_used() -> None:
    loaded = "print(sorted({'hilc.host', 'hilc.references', 'hil.verify'} & set(sys.modules)))"
    assert run(f"import sys, hil, hilc; {loaded}") == "[]"


@pytest.mark.parametrize("package", ["hil", "hilc"])
def test_what_does_not_exist_is_no_attribute(package: str) -> None:
    code = f"import {package}; print(hasattr({package}, 'nonsense'), 'host' in dir({package}))"
    assert run(code) == f"False {package == 'hilc'}"
