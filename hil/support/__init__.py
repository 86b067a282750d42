"""Helpers of all packages: child processes, the cache, QEMU's control, optional parts."""
