"""Which kernels can compute a layer, with which parameters and at what cost."""
