"""Which kernels and fused groups a program takes: the search, and logs of measurements."""
