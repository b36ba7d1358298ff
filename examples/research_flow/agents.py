"""The tasks of the flow. Each is a plain function of what it is given; none of them knows of the others."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from flowfabric import Worker

SEARCHES = 20
ENOUGH = 12

worker = Worker(["research"], concurrency=6, cancel_grace=0.1)


@dataclass
class Plan:
    topic: str
    questions: list[str]


@dataclass
class Finding:
    question: str
    text: str
    score: int


@dataclass
class Verdict:
    topic: str
    best: list[Finding]
    seen: int


@worker.task
async def plan(topic: str) -> Plan:
    return Plan(topic, [f"{topic}, question {number}" for number in range(1, SEARCHES + 1)])


@worker.task
async def search(number: int, plan: Plan) -> Finding:
    """Some searches are quick and some are slow; nobody waits for the slow ones."""
    await asyncio.sleep(random.uniform(0.1, 0.8))
    question = plan.questions[number]
    return Finding(question, f"what is known about {question}", score=(number * 7) % SEARCHES)


@worker.task
async def judge(found: list[Finding], plan: Plan) -> Verdict:
    best = sorted(found, key=lambda each: each.score, reverse=True)
    return Verdict(plan.topic, best[:3], seen=len(found))


@worker.task
async def write(verdict: Verdict) -> str:
    lines = "; ".join(each.text for each in verdict.best)
    return f"{verdict.topic}, from {verdict.seen} findings: {lines}"


@worker.task
async def apologise(topic: str) -> str:
    return f"too little is known about {topic}"
