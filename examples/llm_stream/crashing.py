"""The author is killed in the middle: who watches is told to begin anew, and sees the second attempt."""

from __future__ import annotations

from examples.llm_stream.author import TOKENS, answer, text_of
from examples.llm_stream.stage import Stage, Text, console

QUESTION = "And if the moon fell down?"
FATAL = 800  # tokens


async def play(stage: Stage) -> None:
    console.print("[bold]The author is killed in the middle[/]")
    author = await stage.enter_author()
    handle = await stage.fabric.submit(answer, QUESTION)
    text = Text()
    async for item in handle.stream():
        if item.is_reset:
            console.print(f"  reset: attempt {item.attempt_index} begins, {len(text.shown)} characters are void")
        text.add(item)
        if item.attempt_index == 0 and text.tokens == FATAL:
            author.kill()
            await author.wait()
            console.print(f"  kill -9 after {FATAL} tokens; another author takes over")
            author = await stage.enter_author()
    assert text.shown == text_of(QUESTION), "the second attempt is whole"
    said = [item.attempt_index async for item in handle.stream(attempts="all")]
    assert FATAL <= said.count(0) < TOKENS, "the first attempt was not"
    console.print(f"  [green]the second attempt is whole[/]; of the first {said.count(0)} tokens are kept")
    await stage.leave(author)
