"""Tasks: what a call must look like, what travels, and what options mean."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from flowfabric.client.tasks.options import OPTION_NAMES, Options, TaskOptions, duration_or_moment
from flowfabric.client.tasks.task import Call, Task, TaskContext, named, task
from flowfabric.core.policy import ExecutionPolicy, FixedBackoff, RetryPolicy, RoutingRequirements
from flowfabric.errors import InvalidInput


class Context(TaskContext):
    """What a worker would pass."""


@task(lane="agents", retry=2)
async def research(ctx: Context, topic: str, depth: int = 3, *, deep: bool = False) -> Report:
    return Report(topic, depth)


@dataclasses.dataclass
class Report:  # after its use above, as modules do
    topic: str
    pages: int


@dataclasses.dataclass
class Point:
    x: int


@task
def add(a: int, /, b: int) -> int:
    return a + b


@task
def collect(first: int, *numbers: int, **named_numbers: float) -> list[float]:
    return [first, *numbers, *named_numbers.values()]


@task
def untyped(a, b=None):  # type: ignore[no-untyped-def]
    return [a, b]


def wire(payload: bytes) -> Any:
    return msgspec.json.decode(payload)


def test_a_call_travels_as_it_was_written() -> None:
    payload = research.encode_arguments("tides", deep=True)
    assert wire(payload) == {"args": ["tides"], "kwargs": {"deep": True}}
    assert research.decode_arguments(payload) == (("tides",), {"deep": True})


def test_arguments_come_back_with_the_types_of_their_parameters() -> None:
    @task
    def draw(where: tuple[int, int], when: datetime, *notes: bytes, **reports: Report) -> None: ...

    when = datetime(2030, 1, 1, tzinfo=UTC)
    payload = draw.encode_arguments((1, 2), when, b"a", b"b", one=Report("x", 1))
    assert draw.decode_arguments(payload) == (((1, 2), when, b"a", b"b"), {"one": Report("x", 1)})


def test_a_context_is_no_argument() -> None:
    assert research.takes_context
    assert not add.takes_context
    assert research.decode_arguments(research.encode_arguments("tides", 5)) == (("tides", 5), {})


def test_a_parameter_without_annotation_takes_anything() -> None:
    assert untyped.decode_arguments(untyped.encode_arguments({"x": [1]}, b="y")) == (({"x": [1]},), {"b": "y"})
    assert untyped.decode_result(untyped.encode_result([1, None])) == [1, None]


@pytest.mark.parametrize(
    ("wrong", "field", "says"),
    [
        (research.call, "topic", "missing a required argument"),
        (lambda: research.call("x", 3, 4), "arguments", "too many positional arguments"),  # type: ignore[call-arg,arg-type]
        (lambda: research.call("x", topic="y"), "topic", "multiple values"),  # type: ignore[misc]
        (lambda: research.call("x", width=3), "width", "unexpected keyword argument"),  # type: ignore[call-arg]
        (lambda: research.call(3), "topic", "Expected `str`, got `int`"),  # type: ignore[arg-type]
        (lambda: research.call("x", depth="deep"), "depth", "Expected `int`, got `str`"),  # type: ignore[arg-type]
        (lambda: research.call("x", deep=None), "deep", "Expected `bool`, got `null`"),  # type: ignore[arg-type]
        (lambda: research.call(Context()), "topic", "has no JSON form"),  # type: ignore[arg-type]
        (lambda: research.call("x", deep=object()), "deep", "has no JSON form"),  # type: ignore[arg-type]
        (lambda: add.call(1, a=2), "b", "missing a required argument"),  # type: ignore[call-arg]
        (collect.call, "first", "missing a required argument"),
        (lambda: collect.call(1, 2, "x"), "args[2]", "Expected `int`, got `str`"),  # type: ignore[arg-type]
        (lambda: collect.call(1, more="x"), "more", "Expected `float`, got `str`"),  # type: ignore[arg-type]
        (lambda: collect.call(1, float("nan")), "args[1]", "got `null`"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_call_is_refused_with_the_parameters_name(wrong: Callable[[], object], field: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        wrong()
    assert caught.value.field == field
    assert says in str(caught.value)


def test_parameters_may_be_called_like_ours() -> None:
    @task
    def awkward(*, self: int, function: int, task: int, name: int, args: int, kwargs: int) -> None: ...

    given = {"self": 1, "function": 2, "task": 3, "name": 4, "args": 5, "kwargs": 6}
    assert awkward.decode_arguments(awkward.call(**given).payload) == ((), given)


def test_what_is_no_json_is_refused_even_where_anything_goes() -> None:
    with pytest.raises(InvalidInput):
        named("any").call(msgspec.Raw(b"{no json"))
    with pytest.raises(InvalidInput):
        untyped.call(1, b=msgspec.Raw(b"{no json"))


def test_a_bool_is_no_number_and_a_number_is_no_bool() -> None:
    with pytest.raises(InvalidInput, match="Expected `int`, got `bool`"):
        add.call(True, 1)
    with pytest.raises(InvalidInput, match="Expected `bool`, got `int`"):
        research.call("x", 3, deep=1)  # type: ignore[arg-type]


def test_a_task_of_any_arguments_takes_all_of_them() -> None:
    for args, kwargs in (((), {}), ((1, None, "x", True), {}), ((1,), {"more": [2]})):
        assert named("any").decode_arguments(named("any").encode_arguments(*args, **kwargs)) == (args, kwargs)
    assert collect.decode_arguments(collect.encode_arguments(1, 2, 3, x=1.5)) == ((1, 2, 3), {"x": 1.5})
    assert collect.decode_arguments(collect.encode_arguments(first=1, x=2.0)) == ((), {"first": 1, "x": 2.0})


def test_an_argument_nested_beyond_reading_is_refused() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInput):
        untyped.call(deep)


def test_a_refused_call_is_shown_what_the_task_takes() -> None:
    with pytest.raises(InvalidInput, match=r"add takes \(a: int, /, b: int\) -> int"):
        add.call(1)  # type: ignore[call-arg]


def test_an_option_among_the_arguments_is_pointed_to_its_place() -> None:
    with pytest.raises(InvalidInput, match=r"research\.with_options\(priority=\.\.\.\)"):
        research.call("x", priority=5)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        (b'{"args":[],"kwargs":{}}', "topic"),
        (b'{"args":["x"],"kwargs":{"width":1}}', "width"),
        (b'{"args":[1],"kwargs":{}}', "topic"),
        (b'{"args":["x"],"kwargs":{"depth":"y"}}', "depth"),
        (b'{"arguments":[]}', "arguments"),
        (b"[]", "arguments"),
        (b"", "arguments"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_with_the_parameters_name(payload: bytes, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        research.decode_arguments(payload)
    assert caught.value.field == field


def test_arguments_over_the_limit_are_refused_with_limit_size_and_task() -> None:
    with pytest.raises(
        InvalidInput, match=r"arguments of research: must be at most 1048576 bytes long, it has"
    ) as caught:
        research.call("x" * 2_000_000)
    assert caught.value.code == "payload_too_large"


def test_a_result_comes_back_as_the_annotated_type() -> None:
    assert research.decode_result(research.encode_result(Report("x", 3))) == Report("x", 3)


def test_a_function_that_returns_an_awaitable_has_its_value_as_result() -> None:
    @task
    def later() -> Awaitable[tuple[int, int]]:
        raise NotImplementedError

    assert later.decode_result(b"[1,2]") == (1, 2)


def test_a_result_of_another_type_is_refused_when_it_is_read() -> None:
    with pytest.raises(InvalidInput, match=r"result of research\.pages: Expected `int`, got `str`"):
        research.decode_result(b'{"topic":"x","pages":"many"}')


async def test_called_directly_a_task_is_its_function() -> None:
    assert await research(Context(), "tides") == Report("tides", 3)
    assert add(1, b=2) == 3


def test_a_task_looks_like_its_function() -> None:
    def documented(a: int) -> int:
        """Says what it does."""
        return a

    made = task(documented)
    assert (made.name, made.__doc__, made.__wrapped__) == ("documented", "Says what it does.", documented)  # type: ignore[attr-defined]
    assert repr(made) == "Task('documented')"
    assert made.function is documented


def test_a_name_can_be_given_and_must_be_where_there_is_none() -> None:
    assert task(name="sum-up")(add.function).name == "sum-up"
    with pytest.raises(InvalidInput, match="name: must be given"):
        Task(functools.partial(add.function, 1))
    with pytest.raises(InvalidInput, match="name: must be 1 to 128 bytes"):
        Task(add.function, name="x" * 129)
    with pytest.raises(InvalidInput, match="task: must be a function"):
        Task("add")  # type: ignore[arg-type]


def test_an_annotation_that_is_unknown_at_run_time_is_named() -> None:
    def broken(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidInput, match=r"task: .*name 'Missing' is not defined.* \(got 'broken'\)"):
        task(broken).call(1)  # type: ignore[call-arg]


def test_a_parameter_of_a_type_that_cannot_travel_is_named() -> None:
    def broken(ok: int, point: Report | Point) -> None: ...

    with pytest.raises(InvalidInput, match="point: cannot be the type of a payload"):
        task(broken).call(1, Report("x", 1))


def test_options_can_be_changed_for_one_use() -> None:
    urgent = research.with_options(priority=9, idempotency_key="k")
    assert (urgent.options.priority, urgent.options.idempotency_key, urgent.options.lane) == (9, "k", "agents")
    assert (research.options.priority, research.options.idempotency_key) == (0, None)
    assert urgent.call("x").task is urgent
    assert urgent.decode_arguments(urgent.encode_arguments("x")) == (("x",), {})


def test_changed_options_are_those_made_at_once() -> None:
    made = TaskOptions(lane="a", retry=2, timeout=1).changed(lane="b", retry=None, deadline=60)
    assert made == TaskOptions(lane="b", timeout=1, deadline=60)
    assert made.policy == TaskOptions(lane="b", timeout=1, deadline=60).policy
    assert made.lane_id == "b"


def test_a_task_keeps_its_policy_when_only_the_key_changes() -> None:
    assert research.with_options(idempotency_key="k").options.policy is research.options.policy


def test_every_option_can_be_given_by_name() -> None:
    assert {field.name for field in dataclasses.fields(TaskOptions)} == OPTION_NAMES == set(Options.__annotations__)


def test_options_become_the_policy_of_the_execution() -> None:
    policy = TaskOptions(
        retry=RetryPolicy(max_retries=5, backoff=FixedBackoff(delay_ms=10)),
        timeout=timedelta(seconds=2),
        deadline=60,
        capabilities={"gpu", "big"},
        idempotency_window=timedelta(hours=1),
        keep_for=timedelta(days=7),
    ).policy
    assert policy is not None
    assert policy.retry_policy == RetryPolicy(max_retries=5, backoff=FixedBackoff(delay_ms=10))
    assert policy.timeout_policy is not None
    assert (policy.timeout_policy.attempt_timeout_ms, policy.timeout_policy.execution_deadline_ms) == (2_000, 60_000)
    assert policy.routing_requirements == RoutingRequirements(required_capabilities=("big", "gpu"))
    assert policy.dedup_window_ms == 3_600_000
    assert policy.stream_policy is not None
    assert policy.stream_policy.retention_ttl_ms == 604_800_000


def test_a_number_of_retries_is_a_retry_policy() -> None:
    assert TaskOptions(retry=4).policy == ExecutionPolicy(retry_policy=RetryPolicy(max_retries=4))
    assert TaskOptions().policy is None


def test_a_moment_is_no_duration() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    assert duration_or_moment("delay", moment) == (None, 1_893_456_000_000)
    assert duration_or_moment("delay", 1.5) == (1_500, None)
    assert duration_or_moment("delay", None) == (None, None)
    assert TaskOptions(deadline=moment).policy is None


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"priority": 9_001}, "priority"),
        ({"priority": True}, "priority"),
        ({"lane": ""}, "lane_id"),
        ({"lane": "\N{WATER WAVE}"}, "lane_id"),
        ({"retry": -1}, "retry_policy.max_retries"),
        ({"retry": True}, "retry_policy.max_retries"),
        ({"retry": "often"}, "retry_policy"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": "1"}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": timedelta(days=400)}, "timeout"),
        ({"deadline": -1}, "deadline"),
        ({"deadline": datetime(2030, 1, 1)}, "deadline"),
        ({"delay": -0.001}, "delay"),
        ({"delay": datetime(1960, 1, 1, tzinfo=UTC)}, "delay"),
        ({"capabilities": "gpu"}, "capabilities"),
        ({"capabilities": ["a,b"]}, "capabilities"),
        ({"tags": {"a\nb": "x"}}, "tags"),
        ({"tags": ["team.x"]}, "tags"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"idempotency_window": 0}, "idempotency_window"),
        ({"concurrency_key": "a\nb"}, "concurrency_key"),
        ({"on_duplicate": "ignore"}, "on_duplicate"),
        ({"keep_for": "long"}, "keep_for"),
    ],
)
def test_a_bad_option_is_refused_by_name_when_it_is_given(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as made:
        TaskOptions(**options)
    with pytest.raises(InvalidInput) as changed:
        add.with_options(**options)
    assert made.value.field == changed.value.field == field


def test_an_option_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidInput, match="unknown option 'prioriti'; valid options: budgets, "):
        add.with_options(prioriti=5)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="unknown option 'prioriti'"):
        task(prioriti=5)  # type: ignore[call-overload]


def test_a_task_known_by_name_takes_any_arguments() -> None:
    far = named("far-away", lane="agents")
    assert (far.name, far.options.lane) == ("far-away", "agents")
    assert wire(far.encode_arguments(1, x=[2])) == {"args": [1], "kwargs": {"x": [2]}}
    assert far.decode_result(b'{"a":1}') == {"a": 1}
    with pytest.raises(InvalidInput, match="its function is not in this program"):
        far(1)


def test_options_of_a_decorator_add_up() -> None:
    urgent = task(lane="own")(priority=4)

    @urgent(retry=1, name="two")
    def one() -> None: ...

    assert (one.name, one.options) == ("two", TaskOptions(lane="own", priority=4, retry=1))


def test_a_call_is_a_task_and_its_payload() -> None:
    assert add.call(1, b=2) == Call(add, b'{"args":[1],"kwargs":{"b":2}}')
