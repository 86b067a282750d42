"""What exists for the users of other compilers."""
