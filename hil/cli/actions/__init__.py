"""What the commands do: one module a command, which loads the compiler when it runs."""
