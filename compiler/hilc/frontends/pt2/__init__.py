"""Programs of ``torch.export``, which become ONNX models.

- :mod:`~hilc.frontends.pt2.reader`: the entry points;
- :mod:`~hilc.frontends.pt2.archive`: the file: JSON and raw tensors in a ZIP archive;
- :mod:`~hilc.frontends.pt2.program`: the program as calls of operators over named tensors;
- :mod:`~hilc.frontends.pt2.sizes`: sizes that the export left open, as numbers;
- :mod:`~hilc.frontends.pt2.convert`: the walk over the calls: names, operations in place, states;
- :mod:`~hilc.frontends.pt2.model`: what a translator of one call is given, and their table; the
  modules of :mod:`~hilc.frontends.pt2.translators` fill it, one a family.
"""
