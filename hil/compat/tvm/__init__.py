"""Compatibility with microTVM: `hil tvmc`, packed functions and TVM's runtime on boards."""
