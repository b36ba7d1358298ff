"""`submit`: submit one execution of a task by the task's name."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from typer import Argument, Option

from flowfabric.cli import parsing
from flowfabric.cli.deadline import within
from flowfabric.cli.options import AsJson, Url
from flowfabric.cli.running import connected, impatient, reporting, store_settings
from flowfabric.cli.show.output import Output
from flowfabric.cli.show.unknown_names import warn_of_unknown_limits
from flowfabric.client.fabric import Fabric, registered_task
from flowfabric.client.handle import Handle
from flowfabric.client.tasks.options import TaskOptions
from flowfabric.client.tasks.task import Task
from flowfabric.core.contracts import DuplicateMode
from flowfabric.errors import InvalidInput

Text: TypeAlias = str | None
Texts: TypeAlias = list[str] | None

Name: TypeAlias = Annotated[str, Argument(metavar="NAME", help="The task.", show_default=False)]
Arguments: TypeAlias = Annotated[
    Texts, Argument(metavar="JSON", help="Its arguments, each as JSON.", show_default=False)
]
ByName: TypeAlias = Annotated[Text, Option(metavar="JSON", help="Its arguments by name, as a JSON object.")]
Lane: TypeAlias = Annotated[Text, Option(metavar="LANE", help="The lane. By default that of the task.")]
Priority: TypeAlias = Annotated[int | None, Option(metavar="N", help="0 to 9000; higher starts first.")]
Delay: TypeAlias = Annotated[Text, Option(metavar="DURATION", help="Start after this long: 30s, 5m, 2h.")]
Retries: TypeAlias = Annotated[int | None, Option(metavar="N", help="How often to retry when it fails.")]
AttemptTimeout: TypeAlias = Annotated[Text, Option(metavar="DURATION", help="How long one attempt may take.")]
Deadline: TypeAlias = Annotated[Text, Option(metavar="DURATION", help="How long it may take in all.")]
Capabilities: TypeAlias = Annotated[
    Texts, Option(metavar="TOKEN", help="A capability that the worker must offer. Repeatable.")
]
Tags: TypeAlias = Annotated[Texts, Option(metavar="KEY=VALUE", help="A tag like team=red. Repeatable.")]
IdempotencyKey: TypeAlias = Annotated[
    Text, Option(metavar="KEY", help="Submitting again with this key returns the same execution.")
]
Idempotency: TypeAlias = Annotated[
    Text, Option(metavar="WHEN", help="until_success: a failed, expired or cancelled execution frees its key.")
]
OnDuplicate: TypeAlias = Annotated[
    DuplicateMode | None, Option(metavar="MODE", help=f"What a known idempotency key does: {', '.join(DuplicateMode)}.")
]
ConcurrencyKey: TypeAlias = Annotated[Text, Option(metavar="KEY", help="Executions with the same key take turns.")]
Budgets: TypeAlias = Annotated[Texts, Option("--budget", metavar="ID", help="A budget it spends from. Repeatable.")]
Quotas: TypeAlias = Annotated[
    Texts, Option("--quota", metavar="ID", help="A quota policy it needs admission from. Repeatable.")
]
Namespace: TypeAlias = Annotated[str, Option(metavar="NAME", help="The namespace.")]
Wait: TypeAlias = Annotated[bool, Option("--wait", help="Wait for the end and print the result.")]
Timeout: TypeAlias = Annotated[
    Text, Option(metavar="DURATION", help="With --wait, end this command after this long; the execution continues.")
]


def submit(
    name: Name,
    args: Arguments = None,
    kwargs: ByName = None,
    lane: Lane = None,
    priority: Priority = None,
    delay: Delay = None,
    retries: Retries = None,
    attempt_timeout: AttemptTimeout = None,
    deadline: Deadline = None,
    capability: Capabilities = None,
    tag: Tags = None,
    idempotency_key: IdempotencyKey = None,
    idempotency: Idempotency = None,
    on_duplicate: OnDuplicate = None,
    concurrency_key: ConcurrencyKey = None,
    budget: Budgets = None,
    quota: Quotas = None,
    namespace: Namespace = "default",
    wait: Wait = False,
    timeout: Timeout = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Submit an execution of a task; options that are not given are those that a worker has registered with it."""

    async def body(fabric: Fabric, out: Output) -> None:
        given = _given(
            lane=lane,
            priority=priority,
            delay=parsing.optional_duration("--delay", delay),
            retry=retries,
            timeout=parsing.optional_duration("--attempt-timeout", attempt_timeout),
            deadline=parsing.optional_duration("--deadline", deadline),
            capabilities=capability,
            tags=parsing.tags("--tag", tag) if tag else None,
            idempotency_key=idempotency_key,
            idempotency=idempotency,
            on_duplicate=on_duplicate,
            concurrency_key=concurrency_key,
            budgets=budget,
            quotas=quota,
        )
        task = (await registered_task(fabric, name)).with_options(**given)
        values, by_name = parsing.json_list("JSON", args or ()), parsing.json_object("--kwargs", kwargs)
        await _answer(fabric, await course.submit(fabric, task, values, by_name), task.options, out, wait=wait)

    with reporting(as_json) as out:
        course = _Course(_seconds(timeout, wait))
        course.run(connected(impatient(store_settings(url)), out, body, namespace), out)


def _given(**options: Any) -> Any:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _seconds(timeout: str | None, wait: bool) -> float | None:
    if timeout is not None and not wait:
        problem = "needs --wait: it bounds this command; --attempt-timeout bounds an attempt, --deadline the execution"
        raise InvalidInput("--timeout", timeout, problem)
    return parsing.optional_duration("--timeout", timeout)


@dataclass
class _Course:
    """How far the command got, for the message of a timeout."""

    seconds: float | None
    is_sent: bool = False
    handle: Handle[Any] | None = None

    def run(self, work: Coroutine[Any, Any, None], out: Output) -> None:
        asyncio.run(within(self.seconds, work, out, self.situation))

    async def submit(
        self, fabric: Fabric, task: Task[..., Any], args: list[Any], kwargs: dict[str, Any]
    ) -> Handle[Any]:
        self.is_sent = True
        self.handle = await fabric.submit(task, *args, **kwargs)
        return self.handle

    def situation(self) -> str:
        after = f"after {self.seconds:g} seconds"
        if self.handle is not None:
            look = f"flowfabric show {self.handle.id.short}"
            return f"{self.handle!r} has not ended {after}; it continues. See it with: {look}"
        if self.is_sent:
            again = "submit it again with the same --idempotency-key to be sure"
            return f"the store has not replied {after}; it may have been submitted: {again}"
        return f"the store has not replied {after}; nothing was submitted"


async def _answer(fabric: Fabric, handle: Handle[Any], options: TaskOptions, out: Output, *, wait: bool) -> None:
    """Print the id; with `wait` the result instead, or as JSON both."""
    await warn_of_unknown_limits(fabric, options.budgets, options.quotas, out)
    answer: dict[str, Any] = {"execution_id": handle.id, "submission": handle.submission}
    if wait:
        answer["result"] = await handle.result()
    if out.as_json:
        out.json(answer)
    elif wait:
        out.json(answer["result"])
    else:
        out.line(handle.id)
