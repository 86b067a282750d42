"""The optional parts of the harness, which fill registries (:mod:`hilc.plugins`)."""

from __future__ import annotations

from hilc.plugins import Part

#: Compatibility with microTVM: packed models and TVM's run time in firmware, calls by name.
TVM = Part("hil.compat.tvm", "compatibility with microTVM")
