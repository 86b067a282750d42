# A program of this machine; the library is in C for any core of 32 bits or more.
CORE =
CROSS =
FLAGS =
