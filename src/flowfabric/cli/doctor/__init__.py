"""`doctor`: is everything there, does it answer, and what should be done about it."""
