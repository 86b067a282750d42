"""Arithmetic that is bit-exact in the reference, the compiler and the C code."""
