"""What a type checker sees of a worker's tasks: arguments without the context, and the result of the function."""

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

from flowfabric.worker import CallNext, Context, Worker, task

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


@worker.task(cpu=True)
def computing(number: int) -> int:
    return number


@task
async def elsewhere() -> None: ...


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
            assert spoken == f'Revealed type is "{kind}"\n', line
        elif error:
            assert error in spoken, line
        else:
            assert not spoken, line
