"""Pure values: no I/O, no clock, no async. Everything else in the package may import from here."""
