"""The opaque cookie a worker holds for its attempt, and its content.

Other clients of the same store share these bytes, so their layout is fixed: magic, version, backend, then
the fields of HandlePayload, numbers little-endian and text with its length first. Older clients wrote one
version byte and the fields; both forms are read.
"""

from __future__ import annotations

import struct
from enum import StrEnum
from functools import cached_property
from typing import NoReturn

import msgspec

from flowfabric.core import limits
from flowfabric.core.ids import (
    AttemptId,
    AttemptIndex,
    ExecutionId,
    LaneId,
    LeaseEpoch,
    LeaseId,
    WorkerInstanceId,
)
from flowfabric.errors import InvalidInput

_MAGIC = 0x02
_VERSION = 0x01
_LEGACY = 0x01
_U32 = struct.Struct("<I")
_U64_PAIR = struct.Struct("<QQ")


class HandleKind(StrEnum):
    """How the owner got the attempt; not part of the bytes."""

    FRESH = "fresh"
    RESUMED = "resumed"
    SUSPENDED = "suspended"
    RECLAIMED = "reclaimed"


class BackendTag(StrEnum):
    VALKEY = "valkey"
    POSTGRES = "postgres"
    SQLITE = "sqlite"


_TAGS = {BackendTag.VALKEY: 0x01, BackendTag.POSTGRES: 0x02, BackendTag.SQLITE: 0x03}


class Handle(msgspec.Struct, frozen=True):
    """Proof of a claim: pass it back, do not read it."""

    backend: BackendTag
    kind: HandleKind
    opaque: bytes


class HandlePayload(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a handle: the fence, and the fields a renewal needs."""

    execution_id: ExecutionId
    attempt_index: AttemptIndex
    attempt_id: AttemptId
    lease_id: LeaseId
    lease_epoch: LeaseEpoch
    lease_ttl_ms: int
    lane_id: LaneId
    worker_instance_id: WorkerInstanceId

    def __post_init__(self) -> None:
        limits.whole("attempt_index", self.attempt_index, 0, limits.MAX_U32)
        limits.whole("lease_epoch", self.lease_epoch, 0, limits.MAX_SAFE_INTEGER)
        limits.whole("lease_ttl_ms", self.lease_ttl_ms, limits.LEASE_TTL_MIN_MS, limits.LEASE_TTL_MAX_MS)


class HandleWriter:
    """Creates handles for the claims of one worker on demand, without checks."""

    def __init__(
        self, backend: BackendTag, *, lease_ttl_ms: int, lane_id: LaneId, worker_instance_id: WorkerInstanceId
    ) -> None:
        self._backend = backend
        self._lease_ttl_ms = lease_ttl_ms
        self._lane_id = lane_id
        self._worker_instance_id = worker_instance_id

    @cached_property
    def _owner(self) -> bytes:
        return _pack(self._lane_id.encode()) + _pack(self._worker_instance_id.encode())

    def write(
        self, kind: HandleKind, *, execution_id: bytes, attempt: tuple[int, bytes], lease: tuple[int, bytes]
    ) -> Handle:
        """attempt: index and id; lease: epoch and id."""
        attempt_index, attempt_id = attempt
        lease_epoch, lease_id = lease
        parts = (
            bytes((_MAGIC, _VERSION, _TAGS[self._backend])),
            _pack(execution_id),
            _U32.pack(attempt_index),
            _pack(attempt_id),
            _pack(lease_id),
            _U64_PAIR.pack(lease_epoch, self._lease_ttl_ms),
            self._owner,
        )
        return Handle(self._backend, kind, b"".join(parts))


def encode_handle(backend: BackendTag, kind: HandleKind, payload: HandlePayload) -> Handle:
    writer = HandleWriter(
        backend,
        lease_ttl_ms=payload.lease_ttl_ms,
        lane_id=payload.lane_id,
        worker_instance_id=payload.worker_instance_id,
    )
    return writer.write(
        kind,
        execution_id=payload.execution_id.encode(),
        attempt=(payload.attempt_index, payload.attempt_id.encode()),
        lease=(payload.lease_epoch, payload.lease_id.encode()),
    )


def decode_handle(handle: Handle) -> HandlePayload:
    """The content of `handle`; refused if its bytes are too short, too long or of another backend."""
    reader = _Reader(handle.opaque)
    _check_header(reader, handle.backend)
    try:
        payload = HandlePayload(
            execution_id=ExecutionId(reader.text()),
            attempt_index=reader.number("<I"),
            attempt_id=AttemptId(reader.text()),
            lease_id=LeaseId(reader.text()),
            lease_epoch=reader.number("<Q"),
            lease_ttl_ms=reader.number("<Q"),
            lane_id=LaneId(reader.text()),
            worker_instance_id=WorkerInstanceId(reader.text()),
        )
    except InvalidInput as error:
        if error.field == "handle":
            raise
        raise InvalidInput("handle", handle.opaque, f"holds a bad {error.message}") from error
    reader.expect_end()
    return payload


def _check_header(reader: _Reader, backend: BackendTag) -> None:
    magic = reader.number("<B")
    if magic == _LEGACY:
        found = BackendTag.VALKEY  # the only backend there was
    elif magic == _MAGIC:
        version = reader.number("<B")
        if version != _VERSION:
            reader.refuse(f"has version {version}, must be {_VERSION}")
        tag = reader.number("<B")
        found = next((name for name, known in _TAGS.items() if known == tag), None) or reader.refuse(
            f"names the unknown backend {tag}"
        )
    else:
        reader.refuse("must start with a known magic byte")
    if found is not backend:
        reader.refuse(f"was made by {found}, must be of {backend}")


def _pack(data: bytes) -> bytes:
    return _U32.pack(len(data)) + data


class _Reader:
    def __init__(self, data: bytes) -> None:
        if not isinstance(data, bytes):
            raise InvalidInput("handle", data, "must be bytes")
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(value)

    def text(self) -> str:
        data = self._take(self.number("<I"))
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.refuse("must hold UTF-8 text")

    def expect_end(self) -> None:
        extra = len(self._data) - self._at
        if extra:
            self.refuse(f"must end after its fields, {extra} bytes are left over")

    def refuse(self, problem: str) -> NoReturn:
        raise InvalidInput("handle", self._data, problem)

    def _take(self, size: int) -> bytes:
        chunk = self._data[self._at : self._at + size]
        if len(chunk) < size:
            self.refuse(f"is cut short, {size - len(chunk)} bytes are missing")
        self._at += size
        return chunk
