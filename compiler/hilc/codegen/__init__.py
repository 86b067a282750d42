"""From a program to a library: C sources or objects, the header, what the harness must know.

``generate`` puts the files together. ``operators`` and ``main`` write what computes, ``entry`` and
``header`` what a caller links and includes, each for the interface that was asked for
(``interface_c``, ``interface_packed``); ``registry`` and ``c_metadata`` what TVM's run time looks
up. ``llvm`` makes objects of the C.
"""

from __future__ import annotations

from hilc.codegen.options import Options

# Not generate(): the library's own modules import parts of this package.
__all__ = ["Options"]
