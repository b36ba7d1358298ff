"""The stories one after the other: `python -m examples.llm_stream`."""

from __future__ import annotations

import asyncio

from examples.llm_stream import budgeted, crashing, watching
from examples.llm_stream.stage import opened

AT_MOST_S = 100
STORIES = (watching, crashing, budgeted)


async def main() -> None:
    async with asyncio.timeout(AT_MOST_S), opened() as stage:
        for story in STORIES:
            await story.play(stage)


if __name__ == "__main__":
    asyncio.run(main())
