"""What is kept of a handler's exception: enough to explain it, bounded, and no local value."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core import limits
from flowfabric.core.codec import to_json
from flowfabric.core.contracts.failures import FailureDetail, detail_from_json, detail_to_json
from flowfabric.core.failure_lines import failure_lines
from flowfabric.worker.attempts.failure_details import detail_of
from tests.unit.worker.test_worker_outcomes import failure_of


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        if cause is not None:
            raise error from cause
        raise error
    except BaseException as caught:
        return caught


def told(error: BaseException) -> FailureDetail:
    detail = detail_of(error)
    assert detail is not None
    return detail


def test_type_message_notes_and_the_line_are_kept() -> None:
    error = ValueError("no such page")
    error.add_note("page 7 of 3")
    detail = told(raised(error))
    assert (detail.type, detail.message, detail.notes) == ("ValueError", "no such page", ("page 7 of 3",))
    frame = detail.frames[-1]
    assert frame.file.endswith("test_failure_details.py")
    assert (frame.function, frame.source) == ("raised", "raise error")


def test_the_chain_of_causes_is_kept() -> None:
    first = raised(OSError("refused"))
    second = raised(RuntimeError("no index"), first)
    detail = told(raised(KeyError("page"), second))
    assert detail.cause is not None
    assert detail.cause.cause is not None
    assert (detail.cause.type, detail.cause.cause.message) == ("RuntimeError", "refused")


def test_what_was_being_handled_is_told_unless_it_was_hidden() -> None:
    def fail(*, hides: bool) -> None:
        try:
            raise OSError("first")
        except OSError:
            if hides:
                raise ValueError("second") from None
            raise ValueError("second")  # noqa: B904

    def caught(*, hides: bool) -> FailureDetail:
        try:
            fail(hides=hides)
        except ValueError as error:
            return told(error)
        raise AssertionError

    behind = caught(hides=False).context
    assert behind is not None
    assert behind.message == "first"
    assert caught(hides=True).context is None


async def test_the_members_of_a_group_are_kept() -> None:
    async def fail(text: str) -> None:
        raise ValueError(text)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail("one"))
            group.create_task(fail("two"))
    except BaseExceptionGroup as error:
        detail = told(error)
    assert [member.message for member in detail.members] == ["one", "two"]
    assert all(member.frames for member in detail.members)


def test_local_values_are_not_kept() -> None:
    def fail() -> None:
        password = "hunter" + "2" * 8
        raise ValueError(len(password))

    try:
        fail()
    except ValueError as error:
        detail = told(error)
    assert "hunter22222222" not in to_json(detail).decode()


def test_an_exception_that_leads_back_to_itself_is_told_once() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    detail = told(one)
    assert detail.cause is not None
    assert detail.cause.cause is None


def test_deep_recursion_keeps_both_ends_of_the_traceback() -> None:
    def down(left: int) -> None:
        if not left:
            raise ValueError("deep")
        down(left - 1)

    try:
        down(300)
    except ValueError as error:
        detail = told(error)
    assert detail.frames_left_out > 200
    assert detail.frames[-1].source == 'raise ValueError("deep")'
    assert any("calls left out" in line for line in failure_lines(detail))


@given(st.lists(st.text(max_size=9_000), max_size=40), st.text(max_size=50_000), st.integers(0, 40))
def test_the_document_is_bounded_whatever_is_raised(notes: list[str], message: str, members: int) -> None:
    error: BaseException = ValueError(message)
    if members:
        error = BaseExceptionGroup(
            message[:9_000], [raised(ValueError(message), OSError(message)) for _ in range(members)]
        )
    for note in notes:
        error.add_note(note)
    detail = told(raised(error, KeyError(message)))
    assert len(to_json(detail)) <= limits.FAILURE_DETAIL_MAX_BYTES
    assert detail_from_json(detail_to_json(detail) or "") == detail
    assert list(failure_lines(detail))


def test_an_exception_that_cannot_be_printed_is_told_all_the_same() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "failed" in told(Odd()).message


async def test_the_worker_sends_the_detail_without_its_own_calls() -> None:
    detail = (await failure_of(ValueError("no such page"))).failure_detail
    assert detail is not None
    assert [frame.function.rpartition(".")[2] for frame in detail.frames] == ["handler"]


def test_text_that_is_no_document_is_no_detail() -> None:
    assert detail_from_json("") is None
    assert detail_from_json("Traceback (most recent call last)") is None
    assert detail_from_json('{"kind":"panic"}') is None
