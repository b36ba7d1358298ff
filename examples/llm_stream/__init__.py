"""A model streams its answer, people watch, and a worker dies in the middle: `python -m examples.llm_stream`."""
