"""What exists only for microTVM: `hil tvmc`, packed functions and TVM's run time on boards."""
