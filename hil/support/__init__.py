"""What every room uses: child processes, the cache, QEMU's control, optional parts."""
