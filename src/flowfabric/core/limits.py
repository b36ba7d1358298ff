"""All bounds in one place, and the checks that apply them.

A value outside its bound is refused with the field's name; nothing is clamped.
"""

from __future__ import annotations

import re

from flowfabric.errors import InvalidInput

# numbers
MAX_SAFE_INTEGER = 2**53 - 1  # Lua and JSON readers keep whole numbers as doubles
MAX_U16 = 2**16 - 1
MAX_U32 = 2**32 - 1
MAX_U64 = 2**64 - 1

# time
TIMESTAMP_MAX_MS = 9_999_999_999_999  # 13 digits: Lua prints them without an exponent
MAX_DURATION_MS = 31_536_000_000  # one year; a longer wait is a mistake in the unit
LEASE_TTL_MIN_MS = 1
LEASE_TTL_MAX_MS = 86_400_000  # a dead worker must not hold work for more than a day
GRANT_TTL_MIN_MS = 1
GRANT_TTL_MAX_MS = 3_600_000  # an unused grant hides its execution from other workers
DEFAULT_IDEMPOTENCY_TTL_MS = 86_400_000
DEFAULT_LEASE_HISTORY_GRACE_MS = 60_000
MAX_REQUESTED_RETRY_DELAY_MS = 86_400_000  # a third party's Retry-After must not delay work for longer

# an execution
PRIORITY_MIN = 0
PRIORITY_MAX = 9_000  # above it the queue's score loses milliseconds of age
LANE_ID_MAX_BYTES = 64
NAME_MAX_BYTES = 256  # namespace, worker, worker instance, waitpoint key
WAITPOINT_TOKEN_MAX_BYTES = 512
EXECUTION_KIND_MAX_BYTES = 128
CREATOR_IDENTITY_MAX_BYTES = 256
IDEMPOTENCY_KEY_MAX_BYTES = 256
CONCURRENCY_KEY_MAX_BYTES = 256
MAX_CONCURRENCY = 1_000_000  # of a lane, or of one key in it
ENCODING_MAX_BYTES = 64
PAYLOAD_MAX_BYTES = 1_048_576  # input and result; bigger things belong in an object store
REASON_MAX_BYTES = 4_096
FAILURE_CATEGORY_MAX_BYTES = 64
FAILURE_DETAIL_MAX_BYTES = 16_384  # of one attempt, as JSON
FAILURE_DETAIL_MAX_ITEMS = 100  # frames, notes or members of one exception
MAX_FAILURE_DETAILS = 50  # of one execution, the latest; older attempts keep reason and category
PROGRESS_MESSAGE_MAX_BYTES = 1_024
PROGRESS_PCT_MAX = 100
CAPABILITY_HASH_MAX_BYTES = 128
ROUTE_SNAPSHOT_MAX_BYTES = 16_384
ADMISSION_SUMMARY_MAX_BYTES = 4_096

# tags and capabilities
MAX_TAGS = 64
TAG_KEY_MAX_BYTES = 128
TAG_VALUE_MAX_BYTES = 1_024
MAX_CAPABILITIES = 256
MAX_LANES = 256  # of one worker, or of one claim
MAX_TASK_NAMES = 1_000  # of one worker
MAX_REGISTERED_TASKS = 5_000  # of one namespace
TASK_OPTIONS_MAX_BYTES = 4_096  # as JSON
CAPABILITIES_CSV_MAX_BYTES = 4_096

# log records of an execution
MAX_LOG_LEVEL = 1_000
LOG_MESSAGE_MAX_BYTES = 8_192
MAX_LOG_RECORDS = 100_000
MIN_LOG_BYTES = 16_384  # room for the longest record
MAX_LOG_BYTES = 16_777_216
DEFAULT_LOG_RECORDS = 1_000
DEFAULT_LOG_BYTES = 262_144
DEFAULT_LOG_AGE_MS = 604_800_000  # a week after the last record; never longer than the execution itself is kept

# the policy
POLICY_JSON_MAX_BYTES = 65_536
MAX_RETRIES = 10_000
MAX_RETRYABLE_CATEGORIES = 64
MAX_BACKOFF_MULTIPLIER = 1_000
MAX_POLICY_COUNT = 1_000_000  # reclaims, replays, signals
MAX_SIGNAL_BYTES = 2**30  # of one waitpoint
MAX_RETENTION_MAXLEN = 10_000_000
MAX_BUDGET_IDS = 64
MAX_FALLBACK_TIERS = 16
POLICY_LABEL_MAX_BYTES = 128  # provider, model, locality, isolation level
DEFAULT_MAX_RETRIES = 3
DEFAULT_MAX_RECLAIM_COUNT = 100
DEFAULT_MAX_REPLAY_COUNT = 10
DEFAULT_MAX_SIGNALS = 10_000
DEFAULT_RETENTION_MAXLEN = 10_000

# reads
STREAM_READ_HARD_CAP = 10_000  # frames of one page, whatever the caller asks for
BATCH_MAX_ITEMS = 256  # a batch stalls the server for its whole length: a few milliseconds
SCAN_LIMIT_MAX = 1_000
MAX_OFFERS = 10_000  # live workers in one call of an engine
REQUEST_MAX_ITEMS = 1_000  # of a list in an HTTP request; a larger list takes several requests
JSON_MAX_DEPTH = 100  # well within the stack of any reader

# suspensions, waitpoints, signals
MAX_COMPOSITE_DEPTH = 4  # levels of a resume condition; each is evaluated on every signal
MAX_CONDITION_NODES = 256  # for the same reason
MAX_WATCHERS = 10_000  # executions that wait for the end of one
MAX_SUSPENSION_WAITPOINTS = 32  # each is signed in the one call that suspends: some 7 ms for all of them
CONDITION_JSON_MAX_BYTES = 65_536
CONTINUATION_POINTER_MAX_BYTES = 1_024
QUESTION_MAX_BYTES = 16_384
ANSWER_SCHEMA_MAX_BYTES = 65_536
WAIT_FORM_MAX_BYTES = 131_072  # question and schema as JSON, which may escape much of the question
REJECTION_MAX_BYTES = 512  # why a signal was rejected; it goes to the event log
SIGNAL_NAME_MAX_BYTES = 128
SIGNAL_SOURCE_MAX_BYTES = 256  # category, source type, source identity, correlation id
SIGNAL_PAYLOAD_MAX_BYTES = 262_144  # an execution may keep thousands of them
MAX_SIGNAL_STREAM_LENGTH = 100_000
DEFAULT_SECRET_GRACE_MS = 86_400_000
KID_MAX_BYTES = 64
SECRET_MIN_BYTES = 16
SECRET_MAX_BYTES = 512

# durable steps
REOPENED_WAITPOINT_MS = 86_400_000  # how long at least a retried execution may take to come to a wait again
MAX_CHANGED_STEPS = 100  # results that one fork replaces
MAX_STEPS = 10_000  # of one execution; a handler that runs again reads them all
STEP_NAME_MAX_BYTES = 256
STEP_INPUT_DIGEST_MAX_BYTES = 128
STEP_RESULT_MAX_BYTES = 262_144

# flows
MAX_FLOW_MEMBERS = 20_000
MAX_FLOW_EDGES = 100_000
MAX_QUORUM = 2_147_483_647
DATA_PASSING_REF_MAX_BYTES = 256
GRAPH_PART_MAX_EDGES = 1_024  # of one call; larger graphs come in parts
GRAPH_PART_MAX_BYTES = 4_194_304  # payloads of one call

# frames
FRAME_PAYLOAD_MAX_BYTES = 65_536  # default; a call may set its own
MAX_FRAME_PAYLOAD_BYTES = 1_048_576  # an upper bound for every call
FRAME_TYPE_MAX_BYTES = 128
FRAME_LABEL_MAX_BYTES = 256  # correlation id, source
FRAME_METADATA_MAX_BYTES = 16_384
MAX_FRAMES_AT_ONCE = 256  # of one attempt in one call
MAX_LIVE_FRAMES = 100_000  # best-effort frames of a stream
DEFAULT_MAX_LIVE_FRAMES = 16_384
MAX_TAIL_BLOCK_MS = 30_000
MAX_TAILS = 4_096  # streams that one backend follows at the same time; one token of a server gets a part of them

# budgets and quotas
MAX_DIMENSIONS = 64  # of one budget, and of one call
DIMENSION_MAX_BYTES = 64
MAX_AMOUNT = 9_999_999_999_999  # of one report or limit; totals stay exact far beyond it
MAX_OPEN_RESERVATIONS = 64  # of one execution on one budget
DEDUP_KEY_MAX_BYTES = 256
MAX_SCOPE_LIMITS = 64  # budgets, and quota policies, of one scope
MAX_QUOTA_POLICY_IDS = 64

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def whole(field: str, value: object, low: int, high: int, *, error: type[InvalidInput] = InvalidInput) -> int:
    """`value` if it is a whole number from `low` to `high`; bools are refused."""
    if type(value) is not int:
        raise error(field, value, f"must be a whole number from {low} to {high}")
    if not low <= value <= high:
        raise error(field, value, f"must be from {low} to {high}")
    return value


def text(field: str, value: object, low: int, high: int, *, error: type[InvalidInput] = InvalidInput) -> str:
    """`value` if it is text of `low` to `high` bytes of UTF-8 without NUL, which SQL stores cannot keep."""
    if not isinstance(value, str):
        raise error(field, value, "must be text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise error(field, value, "must be valid Unicode, without lone surrogates") from None
    if not low <= size <= high:
        raise error(field, value, f"must be {low} to {high} bytes long, it has {size}")
    if "\0" in value:
        raise error(field, value, "must not contain NUL")
    return value


def label(field: str, value: object, low: int, high: int, *, error: type[InvalidInput] = InvalidInput) -> str:
    """`value` if it is text that fits one line of a log or a key: no control characters."""
    checked = text(field, value, low, high, error=error)
    if _CONTROL.search(checked):
        raise error(field, value, "must not contain control characters")
    return checked


def payload(field: str, value: object, high: int = PAYLOAD_MAX_BYTES) -> bytes:
    """`value` if it is at most `high` bytes; text is refused, because its encoding would be a guess."""
    if not isinstance(value, bytes):
        raise InvalidInput(field, value, "must be bytes")
    if len(value) > high:
        problem = f"must be at most {high} bytes long, it has {len(value)}"
        raise InvalidInput(field, value[:16], problem, code="payload_too_large")
    return value
