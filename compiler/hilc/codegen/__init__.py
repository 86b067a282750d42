"""Code generation: C sources or objects, the header, and the description for the harness.

:mod:`hilc.artifact.generate` assembles the files. ``operators`` and ``main`` write the code that
computes, ``entry`` and ``header`` what a caller links and includes, each for the selected interface
(``interface_c``, ``interface_packed``); ``registry`` and ``c_metadata`` what TVM's runtime looks
up. ``llvm`` compiles the C to objects.
"""

from __future__ import annotations

from hilc.codegen.options import Options

# Not generate(): the library's own modules import parts of this package.
__all__ = ["Options"]
