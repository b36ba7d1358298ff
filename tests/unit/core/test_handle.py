from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core import codec
from flowfabric.core.ids import AttemptId, ExecutionId, LaneId, LeaseId, WorkerInstanceId
from flowfabric.core.lease_handle import BackendTag, Handle, HandleKind, HandlePayload, decode_handle, encode_handle
from flowfabric.errors import InvalidInput
from tests.unit.looping import for_each

UUID = "550e8400-e29b-41d4-a716-446655440000"
PAYLOAD = HandlePayload(
    execution_id=ExecutionId(f"{{fp:7}}:{UUID}"),
    attempt_index=2,
    attempt_id=AttemptId(UUID),
    lease_id=LeaseId("11111111-1111-1111-1111-111111111111"),
    lease_epoch=3,
    lease_ttl_ms=30_000,
    lane_id=LaneId("default"),
    worker_instance_id=WorkerInstanceId("w-1"),
)
HANDLE = encode_handle(BackendTag.VALKEY, HandleKind.FRESH, PAYLOAD)


def _text(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode()


BODY = b"".join(
    (
        _text(f"{{fp:7}}:{UUID}"),
        struct.pack("<I", 2),
        _text(UUID),
        _text("11111111-1111-1111-1111-111111111111"),
        struct.pack("<Q", 3),
        struct.pack("<Q", 30_000),
        _text("default"),
        _text("w-1"),
    )
)


@given(
    st.sampled_from(BackendTag),
    st.sampled_from(HandleKind),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**53 - 1),
    st.integers(1, 86_400_000),
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=64),
    st.uuids(),
)
def test_a_handle_says_what_was_put_in(
    backend: BackendTag, kind: HandleKind, index: int, epoch: int, ttl: int, lane: str, attempt: object
) -> None:
    payload = HandlePayload(
        execution_id=ExecutionId(f"{{fp:9}}:{attempt}"),
        attempt_index=index,
        attempt_id=AttemptId(str(attempt)),
        lease_id=LeaseId(str(attempt)),
        lease_epoch=epoch,
        lease_ttl_ms=ttl,
        lane_id=LaneId(lane),
        worker_instance_id=WorkerInstanceId("größe"),
    )
    handle = encode_handle(backend, kind, payload)
    assert (handle.backend, handle.kind) == (backend, kind)
    assert decode_handle(handle) == payload


@pytest.mark.parametrize(("backend", "tag"), [(BackendTag.VALKEY, 1), (BackendTag.POSTGRES, 2), (BackendTag.SQLITE, 3)])
def test_the_bytes_are_laid_out_as_other_clients_expect(backend: BackendTag, tag: int) -> None:
    assert encode_handle(backend, HandleKind.RESUMED, PAYLOAD).opaque == bytes((2, 1, tag)) + BODY


def test_a_handle_of_the_first_layout_is_read() -> None:
    assert decode_handle(Handle(BackendTag.VALKEY, HandleKind.FRESH, b"\x01" + BODY)) == PAYLOAD


@for_each(range(len(HANDLE.opaque)))
def test_a_handle_cut_short_anywhere_is_refused(size: int) -> None:
    with pytest.raises(InvalidInput, match="cut short") as caught:
        decode_handle(Handle(BackendTag.VALKEY, HandleKind.FRESH, HANDLE.opaque[:size]))
    assert caught.value.field == "handle"


def _replaced(old: bytes, new: bytes) -> bytes:
    return HANDLE.opaque.replace(old, new)


@pytest.mark.parametrize(
    ("opaque", "problem"),
    [
        (HANDLE.opaque + b"\0", "1 bytes are left over"),
        (b"\x01" + BODY + b"xy", "2 bytes are left over"),
        (b"\x03" + HANDLE.opaque[1:], "magic"),
        (b"\x02\x02" + HANDLE.opaque[2:], "version 2"),
        (b"\x02\x01\x09" + HANDLE.opaque[3:], "unknown backend 9"),
        (b"\x02\x01\x02" + HANDLE.opaque[3:], "made by postgres"),
        (_replaced(b"{fp:7}", b"{fp:x}"), "execution_id"),
        (_replaced(struct.pack("<Q", 30_000), struct.pack("<Q", 0)), "lease_ttl_ms"),
        (_replaced(struct.pack("<Q", 3), struct.pack("<Q", 2**63)), "lease_epoch"),
        (_replaced(b"w-1", b"\xff\xff\xff"), "UTF-8"),
        ("text", "must be bytes"),
    ],
)
def test_a_handle_that_was_tampered_with_is_refused(opaque: bytes, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        decode_handle(Handle(BackendTag.VALKEY, HandleKind.FRESH, opaque))
    assert caught.value.field == "handle"


@given(st.binary(max_size=200))
def test_random_bytes_never_crash_the_reader(opaque: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_handle(Handle(BackendTag.VALKEY, HandleKind.FRESH, opaque))


def test_a_handle_survives_json() -> None:
    assert codec.from_json(Handle, codec.to_json(HANDLE)) == HANDLE
