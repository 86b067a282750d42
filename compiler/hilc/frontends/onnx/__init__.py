"""ONNX models.

- :mod:`~hilc.frontends.onnx.reader`: the entry points, which recognize a file without the package
  ``onnx`` and load the modules below, which import it, only then;
- :mod:`~hilc.frontends.onnx.load`: a file's bytes as a checked model that needs no other file;
- :mod:`~hilc.frontends.onnx.specialize`: shapes and values that the user states;
- :mod:`~hilc.frontends.onnx.fold_batch_norm`: batch normalization as part of convolutions;
- :mod:`~hilc.frontends.onnx.states`: pairs of an input and an output that are a state;
- :mod:`~hilc.frontends.onnx.importer`: the walk over the nodes;
- :mod:`~hilc.frontends.onnx.operation`: what a translator of one node is given, and the table of
  translators; the modules of :mod:`~hilc.frontends.onnx.translators` fill it, one a family.
"""
