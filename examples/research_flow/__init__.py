"""Plan, twenty searches of which twelve are enough, judge, write: `python -m examples.research_flow`."""
