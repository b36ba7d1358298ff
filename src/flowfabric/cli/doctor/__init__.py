"""`doctor`: check a store and its processes, and say how to fix problems."""
