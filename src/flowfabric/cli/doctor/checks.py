"""The result of a check."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One line: the thing checked, its status, and how to fix it."""

    name: str
    status: Status
    found: str
    advice: str = ""


def ok(name: str, found: str) -> Check:
    return Check(name=name, status=Status.OK, found=found)


def warn(name: str, found: str, advice: str) -> Check:
    return Check(name=name, status=Status.WARN, found=found, advice=advice)


def fail(name: str, found: str, advice: str) -> Check:
    return Check(name=name, status=Status.FAIL, found=found, advice=advice)
