"""A draft that needs two of three people, or else the boss: `python -m examples.approval`."""
