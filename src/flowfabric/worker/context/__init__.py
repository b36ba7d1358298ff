"""The context of a handler, and the parts behind it."""
