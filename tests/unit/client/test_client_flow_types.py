"""Results that can surely not be read as what a task takes are refused; all others are left to the worker."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NewType, Protocol, TypedDict, TypeVar

import msgspec
import pytest
from pydantic import BaseModel, RootModel, model_serializer, model_validator

from flowfabric.client.flows.builder import FlowBuilder
from flowfabric.client.flows.task_types import clash
from flowfabric.client.tasks.task import task
from flowfabric.core.ids import FlowId
from flowfabric.core.partition import PartitionConfig, flow_partition
from flowfabric.errors import InvalidInput
from tests.unit.looping import for_each

T = TypeVar("T")
Topic = NewType("Topic", str)


@dataclass
class Plan:
    topic: str


@dataclass
class LongPlan(Plan):
    pages: int


@dataclass
class Box(Generic[T]):
    item: T


class Point(msgspec.Struct):
    x: int


class Pair(msgspec.Struct, array_like=True):
    x: int


class Finding(BaseModel):
    score: int


class Scores(RootModel[list[int]]):
    pass


class Lenient(BaseModel):
    score: int

    @model_validator(mode="before")
    @classmethod
    def read(cls, value: object) -> object:
        return {"score": value} if isinstance(value, int) else value


class Short(BaseModel):
    score: int

    @model_serializer
    def written(self) -> int:
        return self.score


class Options(TypedDict):
    depth: int


class Named(Protocol):
    name: str


class Colour(Enum):
    RED = "red"


RECORDS = [Plan, LongPlan, Box[int], Point, Finding, Options, dict[str, int]]


@for_each(
    [
        *((record, plain) for record in RECORDS for plain in (int, str, bool, None, list[int], int | None)),
        *((plain, record) for record in RECORDS for plain in (int, str, bool, list[int])),
        (list[str], list[int]),
        (list[str], set[int]),
        (tuple[str, ...], list[int]),
        (list[list[str]], list[list[int]]),
        (list[Plan], list[str]),
        (list[int], list[Finding]),
        (dict[str, str], dict[str, int]),
        (str | None, int),
        (Finding | None, int),
        (str, int | bool),
        (Literal["a", "b"], int),
        (Topic, int),
        (Annotated[str, "a topic"], Annotated[int, msgspec.Meta(gt=0)]),
        (float, int),
        (list[float], list[int]),
        (int, Plan | None),
    ]
)
def test_a_certain_mismatch_is_seen(types: tuple[Any, Any]) -> None:
    result, wanted = types
    assert clash(_known(result), _known(wanted))


@for_each(
    [
        *((Any, each) for each in (*RECORDS, int, list[int])),
        *((each, Any) for each in (*RECORDS, int, list[int])),
        *((record, object) for record in RECORDS),
        *((record, other) for record in RECORDS for other in RECORDS),
        (LongPlan, Plan),
        (int, float),
        (int, T),
        (T, Plan),
        (Plan, Named),
        (Named, int),
        (int | str, int),
        (int, str | int),
        (Plan | None, Plan),
        (str, Finding | int),
        (list, list[int]),
        (list[str], list),
        (list[int | str], list[int]),
        (list[Any], list[int]),
        (list[str], tuple[int, str]),
        (tuple[str, int], list[int]),
        (list[str], Sequence[int]),
        (Pair, list[int]),
        (list[int], Pair),
        (list[int], Scores),
        (int, Lenient),
        (Short, int),
        (str, Colour),
        (str, datetime),
        (str, Topic),
        (str, Literal["a"]),
        (Annotated[str, object()], int),
    ]
)
def test_what_may_fit_is_left_to_the_worker(types: tuple[Any, Any]) -> None:
    result, wanted = types
    assert not clash(_known(result), _known(wanted))


def _known(kind: Any) -> Any:
    return type(None) if kind is None else kind


@task
def one(number: int = 1) -> int:
    return number


@task
def text(value: str) -> str:
    return value


@task
def make_plan(topic: str) -> Plan:
    return Plan(topic)


@task
def take_plan(plan: Plan) -> str:
    return plan.topic


@task
def total(numbers: list[int]) -> int:
    return sum(numbers)


def drawn() -> FlowBuilder:
    flow_id = FlowId(str(uuid.uuid4()))
    return FlowBuilder("research", PartitionConfig(), flow_partition(flow_id, PartitionConfig()).tag, flow_id)


def test_results_of_the_wrong_type_are_refused_where_they_are_given() -> None:
    flow = drawn()
    number, word, plan = flow.add(one), flow.add(text, "a"), flow.add(make_plan, "tides")
    before = list(flow.nodes)
    for taker, given, problem in [
        (one, plan, "Plan'>, but one takes <class 'int'>"),
        (one, plan.ended, "Plan"),
        (take_plan, number, "gives <class 'int'>, but take_plan takes"),
        (total, flow.all([word]), r"gives list\[str\], but total takes list\[int\]"),
        (total, flow.all([number, word]), r"gives list\[str\]"),
        (total, flow.any([word, plan]), r"gives list\[str\]"),
    ]:
        with pytest.raises(InvalidInput, match=problem):
            flow.add(taker, given)  # type: ignore[call-overload]
    assert list(flow.nodes) == before


def test_results_that_may_fit_are_taken() -> None:
    flow = drawn()
    number, word = flow.add(one), flow.add(text, "a")
    flow.add(total, flow.all([number, flow.add(one)]))
    flow.add(total, flow.any([number, word]))  # type: ignore[list-item]
    flow.add(one, number.ended)  # type: ignore[arg-type]
    flow.add(one, flow.add("elsewhere"))  # type: ignore[misc]
