"""A budget stops the model at its token limit, and a person's answer lets it go on: no token is paid for twice.

python -m examples.llm_stream.budgeted
"""

from __future__ import annotations

import asyncio
import tempfile

from flowfabric import Context, Engine, Fabric, Handle, Worker

AT_MOST_S = 60
TOKENS = 2_000
CHUNK = 100
LIMIT = 800
QUESTION = "What do tides do?"

worker = Worker(["budgeted"])
paid: list[int] = []  # what the model was really asked for


@worker.task
async def answer(ctx: Context, question: str) -> str:
    """Each chunk is a step: after a pause the handler runs again from its top, and finds what it had."""
    text = ""
    for start in range(0, TOKENS, CHUNK):
        await ctx.use(tokens=CHUNK)  # before they are spent: beyond the limit the execution waits here
        text += await ctx.step("chunk", model, question, start)
    return text


async def model(question: str, start: int) -> str:
    paid.append(CHUNK)
    return "".join(f"tide-{at} " for at in range(start, start + CHUNK))


async def play(fabric: Fabric) -> None:
    print("A budget stops the model, and a person's answer lets it go on")
    budget = await fabric.budgets.create({"tokens": LIMIT}, on_hard_limit="suspend", lane="budgeted")
    handle = await fabric.submit(answer, QUESTION)
    await paused(handle)
    used = (await fabric.budgets.status(budget)).usage["tokens"]
    assert used == sum(paid) == LIMIT, (used, paid)
    print(f"  stopped at {used} of {LIMIT} tokens; no worker is held while somebody thinks about it")
    await handle.signal("budget", {"raise": {"tokens": TOKENS}}, source="ada")
    print(f"  ada raises the limit to {TOKENS} tokens")
    text = await handle.result(timeout=AT_MOST_S)
    assert text.split()[-1] == f"tide-{TOKENS - 1}", "it is whole"
    assert sum(paid) == (await fabric.budgets.status(budget)).usage["tokens"] == TOKENS, "and was paid for once"
    print(f"  the answer is whole, and its {TOKENS} tokens were paid for once")


async def paused(handle: Handle[str]) -> None:
    async for event in handle.events():
        if event.event == "suspended":
            return


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="flowfabric-budgeted-") as directory:
        url = f"embedded://{directory}"
        async with (
            asyncio.timeout(AT_MOST_S),
            Fabric.connect(url) as fabric,
            Engine(fabric.backend),
            worker.working(url),
        ):
            await play(fabric)


if __name__ == "__main__":
    asyncio.run(main())
