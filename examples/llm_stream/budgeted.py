"""A budget stops the model at its token limit, and a person's answer lets it go on: no token is paid for twice."""

from __future__ import annotations

from examples.llm_stream.author import TOKENS, text_of, token_of
from examples.llm_stream.stage import Stage, Text, console
from flowfabric import Context, Handle, Worker

CHUNK, LIMIT = 100, 800  # tokens
QUESTION = "What do tides cost?"

worker = Worker(["budgeted"])
paid: list[int] = []  # what the model was really asked for


@worker.task
async def answer_within_budget(ctx: Context, question: str) -> int:
    """Each chunk is a step: after a pause the handler runs again from its top, and does not say it again."""

    async def say(start: int) -> int:
        paid.append(CHUNK)
        tokens = [token_of(question, at) for at in range(start, start + CHUNK)]
        for token in tokens:
            await ctx.emit(token, type="token")
        return sum(map(len, tokens))

    length = 0
    for start in range(0, TOKENS, CHUNK):
        await ctx.use(tokens=CHUNK)  # before they are spent: beyond the limit the execution waits here
        length += await ctx.step("chunk", say, start)
    return length


async def play(stage: Stage) -> None:
    console.print("[bold]A budget stops the model, and a person's answer lets it go on[/]")
    fabric = stage.fabric
    budget = await fabric.budgets.create({"tokens": LIMIT}, on_hard_limit="suspend", lane="budgeted")
    async with worker.working(stage.url):
        handle = await fabric.submit(answer_within_budget, QUESTION)
        await paused(handle)
        used = (await fabric.budgets.status(budget)).usage["tokens"]
        assert used == sum(paid) == LIMIT, (used, paid)
        console.print(f"  stopped at {used} of {LIMIT} tokens; no worker is held while somebody thinks about it")
        await handle.signal("budget", {"raise": {"tokens": TOKENS}}, source="ada")
        console.print(f"  ada raises the limit to {TOKENS} tokens")
        text = Text()
        async for item in handle.stream():
            text.add(item)
        assert text.shown == text_of(QUESTION), "what was streamed is whole"
        assert len(text.shown) == await handle
        assert sum(paid) == (await fabric.budgets.status(budget)).usage["tokens"] == TOKENS, "and was paid for once"
    console.print(f"  [green]the answer is whole, and its {TOKENS} tokens were paid for once[/]")


async def paused(handle: Handle[int]) -> None:
    async for event in handle.events():
        if event.event == "suspended":
            return
