"""The commands of ``hil``: each function takes parsed arguments and returns an exit code."""
