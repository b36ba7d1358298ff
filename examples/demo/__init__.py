"""A research flow, its tokens, its budget and a person's approval, seen in the dashboard: `python -m examples.demo`."""
