"""A submit whose id or idempotency key was used before, in Lua and in `core/rules`: every mode, every situation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core.contracts.execution import DuplicateMode
from flowfabric.core.ids import ExecutionId, LaneId
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.rules.execution.idempotency import Submit, has_missed, meet_duplicate
from flowfabric.core.rules.execution.record import ExecutionRecord
from flowfabric.core.rules.outcome import Refusal
from tests.servers import TestServer
from tests.valkey.equality.execution_twins import CORE, GLUE, ID, TAG, put, records
from tests.valkey.equality.vm import MANY, RuleVm, rule_vm

OTHER = ExecutionId.deterministic_for_lane(LaneId("default"), PartitionConfig(), "22222222-2222-4222-8222-222222222222")
KEY = f"ff:idem:{TAG}:default:key"
_STATUS = {Submit.CREATE: "OK", Submit.DUPLICATE: "DUPLICATE", Submit.REPLACE: "REPLACED"}


@pytest.fixture(scope="module")
def vm(wire_server: TestServer) -> Iterator[RuleVm]:
    with rule_vm(wire_server, GLUE) as opened:
        yield opened


def _submit(vm: RuleVm, execution_id: ExecutionId, mode: DuplicateMode) -> list[str]:
    keys = [f"ff:exec:{TAG}:{execution_id}:core", "", "", "", "", KEY, "", ""]
    return vm.fcall("create_execution", keys, execution_id, "default", "default", "kind", 0, "", "", "", "", 1_000, "",
                    "", "", "", mode, "", 5_000)  # fmt: skip


@MANY
@given(
    mode=st.sampled_from(DuplicateMode), record=records(), is_same_id=st.booleans(), is_keyed=st.booleans(),
    is_gone=st.booleans(),
)  # fmt: skip
def test_a_repeated_submit_has_the_same_end(
    vm: RuleVm, mode: DuplicateMode, record: ExecutionRecord, is_same_id: bool, is_keyed: bool, is_gone: bool
) -> None:
    put(vm, record)
    if is_keyed:
        vm.client.set(KEY, ID)
    if is_gone:
        vm.client.delete(CORE)
    submitted = ID if is_same_id else OTHER
    is_known = is_keyed or (is_same_id and not is_gone)
    decided = meet_duplicate(mode, submitted, ID if is_known else None, None if is_gone else record.state)

    reply = _submit(vm, submitted, mode)
    if isinstance(decided, Refusal):
        assert reply == [0, decided.code, decided.details["existing_execution_id"]]
    else:
        assert reply[1:3] == [_STATUS[decided], submitted if decided is Submit.CREATE else ID]


@MANY
@given(record=records())
def test_an_id_that_lost_its_key_is_found_again(vm: RuleVm, record: ExecutionRecord) -> None:
    put(vm, record)
    vm.client.copy(CORE, CORE.replace(ID, OTHER))
    vm.client.set(KEY, ID)
    mode = DuplicateMode.UNTIL_SUCCESS
    assert meet_duplicate(mode, OTHER, ID, record.state, is_taken=True) is Submit.DUPLICATE
    found = OTHER if has_missed(record.state) else ID
    assert _submit(vm, OTHER, mode)[1:3] == ["DUPLICATE", found]
