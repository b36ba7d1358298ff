"""The author is killed in the middle: the second attempt says the same again, and a reader sees nothing twice."""

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
        assert not item.is_reset, "it would say: attempt 1 differs, begin from the start"
        text.add(item)
        if item.attempt_index == 0 and text.tokens == FATAL:
            author.kill()
            await author.wait()
            console.print(f"  kill -9 after {FATAL} tokens; another author takes over")
            author = await stage.enter_author()
    assert text.shown == text_of(QUESTION), "nothing is missing, nothing comes twice"
    said = [item.attempt_index async for item in handle.stream(attempts="all")]
    assert FATAL <= said.count(0) < TOKENS, "the first attempt was not"
    console.print(f"  [green]the answer is whole[/]; the second attempt repeated {said.count(0)} tokens of the first")
    await stage.leave(author)
