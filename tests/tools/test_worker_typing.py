"""What a type checker sees of a worker's tasks, steps and waits: arguments, results and payloads."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# A line that ends with `# error: ...` must be refused with that text, one with `# is: ...` must reveal it, and no
# other line may have anything said about it.
SNIPPETS = """
from __future__ import annotations

from datetime import timedelta

from flowfabric.core.conditions import ByName, Count, CountKind, SignalSet
from flowfabric.worker import CallNext, Context, Signal, Worker, task

worker = Worker(lanes={"agents": 2}, capabilities={"gpu"})


@worker.task
async def plain(number: int) -> str:
    return str(number)


@worker.task(name="other", retry=3, timeout=60)
async def with_context(ctx: Context, topic: str, *, depth: int = 3) -> list[str]:
    reveal_type(ctx.cancelled)  # is: Flag
    ctx.progress("half")  # error: expected "int | None"
    return [topic] * depth


@worker.task
def in_a_thread(ctx: Context, number: int) -> float:
    reveal_type(ctx.wait(ctx.tags()))  # is: dict[str, str]
    return number / 2


@worker.task
async def growing(ctx: Context) -> None:
    reveal_type(ctx.flow.add(plain, 3))  # is: Node[str]
    reveal_type(ctx.flow.map(plain, [1, 2]))  # is: list[Node[str]]
    ctx.flow.add(plain, "3")  # error: "A"
    async with ctx.flow as flow:
        flow.add(elsewhere, after=flow.this)


@worker.task(cpu=True)
def computing(number: int) -> int:
    return number


@task
async def elsewhere() -> None: ...


def length(text: str, times: int = 1) -> int:
    return len(text) * times


async def fetch(page: int) -> list[str]:
    return [str(page)]


@worker.task
async def durable(ctx: Context) -> None:
    reveal_type(await ctx.step("a", length, "x"))  # is: int
    reveal_type(await ctx.step("a", length, "x", 2, was="b"))  # is: int
    reveal_type(await ctx.step("a", fetch, 1))  # is: list[str]
    reveal_type(await ctx.step("a", lambda: fetch(1)))  # is: list[str]
    reveal_type(await ctx.step("a", lambda: 1.5))  # is: float
    reveal_type(await ctx.step("a", fetch, 1, returns=set[str]))  # is: set[str]
    reveal_type(await ctx.step("a", timedelta, 1))  # is: datetime.timedelta
    await ctx.step("a", fetch, "one")  # error: expected "Callable[[str], Awaitable[list[str]]]"
    await ctx.step("a", length)  # error: Too few arguments
    await ctx.step(3, length, "x")  # error: No overload variant
    reveal_type(await ctx.wait_for_signal("a"))  # is: Signal[Any]
    reveal_type((await ctx.wait_for_signal("a", type=int, timeout=60)).payload)  # is: int
    reveal_type(await ctx.wait_for_signal("a", type=dict[str, int]))  # is: Signal[dict[str, int]]
    reveal_type(await ctx.wait_for(SignalSet(("a", "b")), type=str, on_timeout="fail"))  # is: tuple[Signal[str], ...]
    mine: Signal[str] = await ctx.wait_for_signal("a", type=int)  # error: expected "type[str]"
    await ctx.wait_for_signal("a", type="int")  # error: No overload variant
    await ctx.wait_for_signal("a", on_timeout="explode")  # error: No overload variant
    await ctx.wait_for_signal("a", timeuot=3)  # error: No overload variant
    await ctx.wait_for("a")  # error: No overload variant
    desk = await ctx.waitpoint("desk", expires_in=timedelta(days=3))
    reveal_type(desk.link("approve"))  # is: str
    await ctx.wait_for_signal("a", at=desk)
    await ctx.wait_for(Count(1, CountKind.DISTINCT_SOURCES, (desk.key,), ByName("a")))
    await ctx.sleep(timedelta(hours=1))
    reveal_type((await ctx.now(), await ctx.random()))  # is: tuple[datetime.datetime, float]


@worker.task
def durable_in_a_thread(ctx: Context) -> int:
    reveal_type(ctx.wait(ctx.step("a", fetch, 1)))  # is: list[str]
    return ctx.wait(ctx.wait_for_signal("a", type=int)).payload


@worker.task(changed_steps="maybe")  # error: changed_steps
async def undecided() -> None: ...


async def timed(ctx: Context, call_next: CallNext) -> object:
    return await call_next()


worker.add(elsewhere)
Worker(middleware=[timed])
Worker(lanes=3)  # error: Argument "lanes" to "Worker"
worker.task(retrys=3)  # error: retrys
reveal_type(plain)  # is: Task[[number: int], str]
reveal_type(with_context)  # is: Task[[topic: str, *, depth: int =], list[str]]
reveal_type(in_a_thread)  # is: Task[[number: int], float]
reveal_type(computing)  # is: Task[[number: int], int]
plain.encode_arguments("three")  # error: expected "int"
"""


def test_every_line_is_seen_as_it_says(tmp_path: Path) -> None:
    path = tmp_path / "snippets.py"
    path.write_text(SNIPPETS)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--cache-dir", str(tmp_path), str(path)]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    said: dict[int, str] = {}
    for line in printed.splitlines():
        if match := re.match(r".*snippets\.py:(\d+): (?:error|note): (.*)", line):
            said[int(match[1])] = said.get(int(match[1]), "") + match[2] + "\n"
    assert said, printed
    for number, line in enumerate(SNIPPETS.splitlines(), 1):
        _, _, error = line.partition("# error: ")
        _, _, kind = line.partition("# is: ")
        spoken = re.sub(r"flowfabric\.[\w.]+\.", "", said.get(number, ""))
        if kind:
            assert spoken == f'Revealed type is "{kind}"\n', (line, spoken)
        elif error:
            assert error in spoken, (line, spoken)
        else:
            assert not spoken, (line, spoken)
