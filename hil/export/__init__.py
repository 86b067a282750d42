"""Export of compiled models as libraries that other build systems take as their own.

``hil.export`` is the function :func:`export`. A format is one module
of :mod:`hil.export.formats`, or a plugin's, which :func:`register_export` makes known.
"""

from __future__ import annotations

from hil.export.job import Exported, export
from hil.export.package import About, Package
from hil.export.registry import ExportFormat, export_formats, register_export

__all__ = [
    "About",
    "ExportFormat",
    "Exported",
    "Package",
    "export",
    "export_formats",
    "register_export",
]
