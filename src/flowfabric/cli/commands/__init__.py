"""One module per group of commands."""
