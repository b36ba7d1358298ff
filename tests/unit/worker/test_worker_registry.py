"""How a worker is set up and gets its tasks."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flowfabric.core.policy import RetryPolicy
from flowfabric.errors import InvalidCapabilities, InvalidInput
from flowfabric.worker import Context, Worker, task
from flowfabric.worker.executors.threads import is_async


def on_top(number: int) -> int:
    return number


def test_a_function_becomes_a_task_of_the_worker() -> None:
    worker = Worker()

    @worker.task
    async def plain() -> None: ...

    @worker.task(name="with.options", retry=3, timeout=2.5, priority=7)
    async def other(ctx: Context, number: int) -> None: ...

    assert worker.tasks == {"plain": plain, "with.options": other}
    assert other.options.policy is not None
    assert other.options.policy.retry_policy == RetryPolicy(max_retries=3)
    assert (other.options.timeout, other.options.priority) == (2.5, 7)
    assert other.takes_context


def test_tasks_go_to_the_first_lane_of_their_worker_unless_they_name_one() -> None:
    worker = Worker(lanes={"agents": 3, "mail": 1})

    @worker.task
    async def first() -> None: ...

    @worker.task(lane="mail")
    async def second() -> None: ...

    assert (first.options.lane, second.options.lane) == ("agents", "mail")


def test_two_functions_cannot_have_one_name() -> None:
    worker = Worker()

    @worker.task(name="same")
    async def one() -> None: ...

    worker.add(one)
    with pytest.raises(InvalidInput, match="another function"):

        @worker.task(name="same")
        async def two() -> None: ...


def test_a_misspelt_option_is_refused() -> None:
    options: dict[str, Any] = {"retrys": 3}
    with pytest.raises(InvalidInput, match="retrys"):
        Worker().task(**options)


def test_a_cpu_task_must_be_a_plain_function_that_a_process_can_import() -> None:
    worker = Worker()
    with pytest.raises(InvalidInput, match="top level of a module"):

        @worker.task(cpu=True)
        def inside() -> None: ...

    async def wait() -> None: ...

    wait.__qualname__ = "wait"
    with pytest.raises(InvalidInput, match="plain function"):
        worker.add(task(wait), cpu=True)
    worker.task(cpu=True)(on_top)
    assert "on_top" in worker.tasks


def test_an_object_with_an_async_call_is_async() -> None:
    class Caller:
        async def __call__(self) -> None: ...

    assert is_async(Caller())
    assert not is_async(on_top)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"lanes": "default"}, "lanes"),
        ({"lanes": []}, "lanes"),
        ({"lanes": {"default": 0}}, "lanes['default']"),
        ({"lanes": [""]}, "lane_id"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 4, "prefetch": 5}, "prefetch"),
        ({"lease_ttl_ms": 5}, "lease_ttl_ms"),
        ({"namespace": ""}, "namespace"),
        ({"worker_id": "\n"}, "worker_id"),
        ({"grace": -1}, "grace"),
        ({"blocking_threshold": 0}, "blocking_threshold"),
        ({"processes": 0}, "processes"),
    ],
)
def test_bad_settings_are_refused_with_their_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(field)):
        Worker(**options)


def test_bad_capabilities_are_refused() -> None:
    with pytest.raises(InvalidCapabilities):
        Worker(capabilities=["a,b"])


def test_every_process_of_a_worker_has_a_name_of_its_own() -> None:
    one, two = Worker(worker_id="mailer"), Worker(worker_id="mailer")
    assert one.settings.worker_id == two.settings.worker_id == "mailer"
    assert one.settings.worker_instance_id != two.settings.worker_instance_id


@pytest.mark.parametrize(("slots", "largest"), [(1, 1), (2, 1), (5, 3), (64, 32), (1_000, 100)])
def test_a_claim_asks_for_half_of_the_slots_at_most(slots: int, largest: int) -> None:
    assert Worker(concurrency=slots).settings.largest_claim == largest
