"""What a type checker sees: a task's own signature checks its submission, and its result has its type."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A line that ends with `# error: ...` must be refused with that text, one with `# is: ...` must reveal it, and no
# other line may have anything said about it.
SNIPPETS = """
from __future__ import annotations

from dataclasses import dataclass

from flowfabric.client.fabric import Fabric
from flowfabric.client.handle import Handle
from flowfabric.client.sync.fabric import SyncFabric
from flowfabric.client.tasks.task import TaskContext, task


class Context(TaskContext):
    pass


@dataclass
class Report:
    pages: int


@task(lane="agents", retry=3)
async def research(ctx: Context, topic: str, depth: int = 3) -> Report:
    return Report(depth)


@task
def double(number: int) -> int:
    return 2 * number


@task(name="by-context")
def with_context(ctx: Context, number: int) -> str:
    return str(number)


async def submits(fabric: Fabric) -> None:
    await fabric.submit(research, "tides")
    await fabric.submit(research, "tides", depth=5)
    await fabric.submit(double, 3)
    await fabric.submit(research.with_options(priority=5, idempotency_key="k"), "tides")
    await fabric.submit("by name", 1, "two", three=3)
    await fabric.submit(research, 3)  # error: "submit" of "Fabric" matches argument types
    await fabric.submit(research)  # error: "submit" of "Fabric" matches argument type
    await fabric.submit(research, "tides", width=3)  # error: "width"
    await fabric.submit(research, "tides", priority=5)  # error: "priority"
    await fabric.submit(double, "3")  # error: "submit" of "Fabric" matches argument types
    await fabric.submit(with_context, Context(), 3)  # error: "submit" of "Fabric" matches argument types
    research.with_options(priority="high")  # error: expected "int"
    research.with_options(prioriti=5)  # error: "prioriti"


async def results(fabric: Fabric, handle: Handle[Report]) -> None:
    submitted = await fabric.submit(research, "tides")
    reveal_type(submitted)  # is: Handle[Report]
    reveal_type(await submitted.result(timeout=5))  # is: Report
    reveal_type(await submitted)  # is: Report
    reveal_type(await (await fabric.submit(double, 3)))  # is: int
    reveal_type(await (await fabric.submit(with_context, 3)).result())  # is: str
    reveal_type(await (await fabric.submit("by name")).result())  # is: Any
    reveal_type(await fabric.handle("id", research).result())  # is: Report
    reveal_type(await fabric.handle("id").result())  # is: Any
    text: str = await submitted.result()  # error: expression has type "Report"


async def bulks(fabric: Fabric) -> None:
    reveal_type(await fabric.submit_many(double.call(n) for n in range(3)))  # is: list[Handle[int] | FlowFabricError]
    reveal_type(await fabric.submit_many(double, [(1,), (2,)]))  # is: list[Handle[int] | FlowFabricError]
    double.call("3")  # error: expected "int"


@task
def judge(found: list[Report], strict: bool = True) -> float:
    return 1.0


async def flows(fabric: Fabric, scripts: SyncFabric) -> None:
    async with fabric.flow("research", failure_policy="fail_fast") as flow:
        number = flow.add(double, 3)
        reveal_type(number)  # is: Node[int]
        text = flow.add(with_context, number)
        reveal_type(text)  # is: Node[str]
        reports = flow.map(research, ["a", "b"])
        reveal_type(reports)  # is: list[Node[Report]]
        reveal_type(flow.quorum(1, reports))  # is: Given[list[Report]]
        verdict = flow.add(judge, flow.any(reports), after=[text.ended, number.failed])
        reveal_type(verdict)  # is: Node[float]
        flow.add(research, text, number)
        flow.add(research, "tides", depth=number.result)
        flow.add(judge, [each.result for each in reports], strict=False)
        reveal_type(flow.add("by name", text, more=number))  # is: Node[Any]
        flow.add(double, text)  # error: "Node[str]"
        flow.add(double, "3")  # error: "A"
        flow.add(double)  # error: "add" of "FlowBuilder"
        flow.add(judge, text)  # error: "Node[str]"
        flow.add(judge, flow.all([text]))  # error: "Node[str]"
        flow.add(research, "tides", depth=text.result)  # error: "str"
        flow.add(research, "tides", width=3)  # error: "width"
        flow.map(double, ["3"])  # error: "map" of "FlowBuilder"
        flow.add(double, 3, after="text")  # error: "add" of "FlowBuilder"
        inner = flow.add_flow("inner", after=verdict)
        inner.add(double, 4)
    reveal_type(await verdict)  # is: float
    reveal_type(await flow.all(reports))  # is: list[Report]
    reveal_type(await text.ended)  # is: str | None
    reveal_type(flow.handle.node(verdict))  # is: Handle[float]
    reveal_type(await flow.handle.node(text))  # is: str
    reveal_type(await flow.handle.wait(timeout=1))  # is: FlowState
    with scripts.flow("research") as drawn:
        number = drawn.add(double, 3)
    reveal_type(drawn.handle.node(number).result())  # is: int
    reveal_type(drawn.handle.wait())  # is: FlowState


def tasks() -> None:
    reveal_type(research)  # is: Task[[topic: str, depth: int =], Report]
    reveal_type(double)  # is: Task[[number: int], int]
    reveal_type(with_context)  # is: Task[[number: int], str]


def scripts(fabric: SyncFabric) -> None:
    handle = fabric.submit(research, "tides")
    reveal_type(handle)  # is: SyncHandle[Report]
    reveal_type(handle.result())  # is: Report
    reveal_type(handle.wait(timeout=3))  # is: PublicState
    reveal_type(handle.describe())  # is: ExecutionSnapshot
    reveal_type(fabric.list(lane="agents"))  # is: ListExecutionsPage
    reveal_type(fabric.submit_many(double.call(n) for n in range(3)))  # is: list[SyncHandle[int] | FlowFabricError]
    reveal_type(fabric.handle("id", double).result(timeout=1))  # is: int
    for event in handle.events():
        reveal_type(event)  # is: Event
    fabric.submit(research, 3)  # error: "submit" of "SyncFabric" matches argument types
    handle.wait("long")  # error: expected "float
    handle.cancel(3)  # error: expected "str"
    fabric.list(lan="agents")  # error: "lan"
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What mypy says about each line."""
    path = tmp_path_factory.mktemp("typing") / "snippets.py"
    path.write_text(SNIPPETS)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--cache-dir", str(path.parent), str(path)]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found: dict[int, str] = {}
    for line in printed.stdout.splitlines():
        match = re.match(r".*snippets\.py:(\d+): (?:error|note): (.*)", line)
        if match:
            found[int(match[1])] = found.get(int(match[1]), "") + match[2] + "\n"
    assert found, printed.stdout + printed.stderr
    return found


def test_every_line_is_seen_as_it_says(said: dict[int, str]) -> None:
    for number, line in enumerate(SNIPPETS.splitlines(), 1):
        _, _, error = line.partition("# error: ")
        _, _, kind = line.partition("# is: ")
        spoken = re.sub(r"flowfabric\.[\w.]+\.|snippets\.", "", said.get(number, ""))
        if kind:
            assert spoken == f'Revealed type is "{kind}"\n', line
        elif error:
            assert error in spoken, line
        else:
            assert not spoken, line
