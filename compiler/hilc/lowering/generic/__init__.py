"""The portable kernels of every operator."""
