"""Arithmetic that the reference, the compiler and the C code must agree on to the last bit."""
