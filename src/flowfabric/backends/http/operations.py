"""Every operation of the API: its port, its path, and the token scope it requires.

Arguments of a port are in the path, and in the query of a GET or the JSON body of other methods.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cached_property
from typing import Final

from flowfabric.backends.http.signatures import Signature, signature

PREFIX: Final = "/v1"
WAITING: Final = ("wait_for_execution", "wait_for_flow", "tail_attempt_stream")
_PARAMETER: Final = re.compile(r"\{(\w+)\}")


class Scope(StrEnum):
    """What a token permits; a scope does not include others, except that admin includes all."""

    READ = "read"
    SUBMIT = "submit"
    SIGNAL = "signal"
    WORK = "work"
    OPERATE = "operate"
    ADMIN = "admin"


class Reach(StrEnum):
    """What an operation acts on, which decides how a token's namespaces restrict it."""

    EXECUTION = "execution"  # named by execution_id
    FLOW = "flow"  # named by flow_id
    NAMESPACE = "namespace"  # named by the request
    STORE = "store"  # the whole store: for tokens of all namespaces


class Operation:
    """One row of the table."""

    def __init__(
        self,
        method: str,
        path: str,
        port: str,
        scopes: tuple[Scope, ...],
        reach: Reach,
        *,
        takes_payloads: bool = False,
    ) -> None:
        self.method = method
        self.path = PREFIX + path
        self.port = port
        self.scopes = scopes  # any of them suffices
        self.reach = reach
        self.takes_payloads = takes_payloads  # its body may be large
        self.parameters = tuple(_PARAMETER.findall(path))

    def __repr__(self) -> str:
        return f"Operation({self.method} {self.path}, {self.port})"

    @cached_property
    def signature(self) -> Signature:
        return signature(self.port)

    @property
    def scope(self) -> Scope:
        """The scope that allows all of it; `work` may allow only what a handler does."""
        return self.scopes[0]

    @property
    def has_body(self) -> bool:
        return self.method != "GET"

    @property
    def waits(self) -> bool:
        """Whether it is a long poll."""
        return self.port in WAITING

    @property
    def is_audited(self) -> bool:
        """Whether it is an operator's decision; an engine's upkeep is not."""
        return self.scope in (Scope.OPERATE, Scope.ADMIN) and not self.path.startswith(f"{PREFIX}/engine/")


def _group(prefix: str, reach: Reach, rows: str) -> list[Operation]:
    """Parse rows of method, path after the prefix, port and scopes; a plus means that the body contains payloads."""
    found = []
    for row in rows.strip().splitlines():
        method, path, port, allowed, *plus = row.split()
        path, scopes = prefix + path.removeprefix("."), tuple(map(Scope, allowed.split("|")))
        found.append(Operation(method, path, port, scopes, reach, takes_payloads=bool(plus)))
    return found


_ONE = "/executions/{execution_id}"

OPERATIONS: Final[tuple[Operation, ...]] = (
    *_group(
        _ONE,
        Reach.EXECUTION,
        """
        GET  .                       describe_execution            read
        GET  /info                   get_execution                 read
        GET  /state                  get_execution_state           read
        GET  /result                 get_execution_result          read
        GET  /context                read_execution_context        read
        GET  /explanation            explain_execution             read
        GET  /attempts               list_attempts                 read
        GET  /history                history                       read
        GET  /inputs                 read_execution_inputs         read
        GET  /steps                  read_steps                    read
        GET  /logs                   read_logs                     read
        GET  /wait                   wait_for_execution            read
        GET  /waitpoints             list_pending_waitpoints       read
        GET  /resume-signals         list_resume_signals           read
        GET  /streams/{attempt_index}          describe_stream       read
        GET  /streams/{attempt_index}/summary  read_summary          read
        GET  /streams/{attempt_index}/frames   read_attempt_stream   read
        GET  /streams/{attempt_index}/tail     tail_attempt_stream   read
        POST /cancel                 cancel_execution              operate|work
        POST /expire                 expire_execution              operate
        POST /replay                 replay_execution              operate
        POST /retry                  retry_execution               operate
        POST /fork                   fork_execution                operate +
        POST /priority               change_priority               operate
        POST /tags                   set_execution_tags            operate
        POST /resume                 resume_execution              operate
        POST /block                  block_execution_for_admission operate
        POST /unblock                unblock_execution             operate
        POST /promote                promote_delayed               operate
        POST /revoke-lease           revoke_lease                  operate
        POST /signals                signal_execution              signal +
        POST /waitpoints/{waitpoint_id}/signals  deliver_signal       signal +
        POST /waitpoints/{waitpoint_id}/close    close_waitpoint      operate
        GET  /waitpoints/{waitpoint_id}/token    read_waitpoint_token operate
        POST /claim                  claim_execution               work
        POST /claim-resumed          claim_resumed_execution       work
        POST /grant-and-claim        issue_grant_and_claim         work
        POST /claim-grant            issue_claim_grant             work
        POST /reclaim-grant          issue_reclaim_grant           work
        POST /reclaim                reclaim_execution             work
        POST /renew                  renew_lease                   work
        POST /complete               complete_execution            work +
        POST /fail                   fail_execution                work
        POST /delay                  delay_execution               work
        POST /wait-for-children      move_to_waiting_children      work
        POST /watchers               watch_execution               work
        POST /progress               update_progress               work
        POST /steps                  record_step                   work +
        POST /logs                   append_logs                   work +
        POST /suspend                suspend_execution             work +
        POST /signals/reject         reject_signals                work +
        POST /waitpoints             create_pending_waitpoint      work
        POST /frames                 append_frame                  work +
        POST /expire-lease           mark_lease_expired_if_due     admin
        POST /expire-suspension      expire_suspension             admin
        POST /eligibility            evaluate_flow_eligibility     admin
        POST /promote-member         promote_blocked_to_eligible   admin
        """,
    ),
    *_group(
        "",
        Reach.STORE,
        """
        POST /work/claims            claim_executions              work
        POST /work/finish            finish_executions             work +
        POST /work/frames            append_frames                 work +
        POST /work/next              claim_for_worker              work
        GET  /work/eligible          scan_eligible_executions      read
        POST /work/block-route       block_route                   operate
        GET  /counts                 count_executions              read
        GET  /suspended              list_suspended                read
        GET  /lanes                  list_lanes                    read
        GET  /lanes/{lane_id}        describe_lane                 read
        POST /lanes/{lane_id}        configure_lane                operate
        POST /lanes/{lane_id}/state  set_lane_state                operate
        GET  /workers                list_workers                  read
        POST /workers                register_worker               work
        POST /workers/{worker_instance_id}/heartbeat  heartbeat_worker  work
        POST /workers/{worker_instance_id}/dead       mark_worker_dead  operate|work
        GET  /budgets                list_budgets                  read
        POST /budgets                create_budget                 operate
        GET  /budgets/{budget_id}    get_budget_status             read
        GET  /budgets/{budget_id}/ledger       get_budget_ledger       read
        POST /budgets/{budget_id}/usage        report_usage_and_check  work
        POST /budgets/{budget_id}/admin-usage  report_usage_admin      operate
        POST /budgets/{budget_id}/spend        record_spend            work
        POST /budgets/{budget_id}/release      release_budget          work
        POST /budgets/{budget_id}/reservations reserve_budget          work
        POST /budgets/{budget_id}/settlements  settle_reservation      work
        POST /budgets/{budget_id}/reset        reset_budget            operate
        POST /budgets/{budget_id}/limits       set_budget_limits       operate
        GET  /quotas                 list_quota_policies           read
        POST /quotas                 create_quota_policy           operate
        GET  /quotas/{quota_policy_id}             get_quota_status       read
        POST /quotas/{quota_policy_id}             configure_quota_policy operate
        POST /quotas/{quota_policy_id}/admissions  check_admission        work
        POST /quotas/{quota_policy_id}/releases    release_admission      work
        POST /limits/attach          attach_limit                  operate
        POST /limits/detach          detach_limit                  operate
        POST /secrets/seed           seed_waitpoint_hmac_secret    admin
        POST /secrets/rotate         rotate_waitpoint_hmac_secret  admin
        POST /secrets/rotate-all     rotate_waitpoint_hmac_secret_all  admin
        GET  /secrets                list_waitpoint_hmac_kids      admin
        POST /admin/trim             trim_executions               admin
        POST /engine/edges           resolve_dependency            admin
        POST /engine/due-work        run_due_work                  admin
        POST /engine/shares          hold_share                    admin
        GET  /engine/partitions      partitions_in_use             admin|work
        GET  /engine/budget-partitions  budget_partitions_in_use   admin
        POST /engine/next-due        next_due                      admin
        POST /engine/repairs         repair_indexes                admin
        POST /engine/blocked         reevaluate_blocked            admin
        POST /engine/announcements   announce_work                 admin
        POST /engine/worker-expiry   expire_workers                admin
        POST /engine/admissions      drain_admissions              admin
        POST /engine/budget-resets   reset_due_budgets             admin
        GET  /engine/limit-partitions  limit_partitions_in_use     admin
        POST /engine/limits          reconcile_limits              admin
        POST /engine/parked-claims   forget_parked_claims          admin
        POST /engine/budget-notices  read_budget_notices           admin
        POST /engine/watched-ends    read_watched_ends             admin
        """,
    ),
    *_group(
        "",
        Reach.NAMESPACE,
        """
        PUT  /executions             create_execution              submit|work +
        POST /executions/batch       submit_executions             submit|work +
        GET  /executions             list_executions               read
        GET  /tasks                  list_tasks                    read
        GET  /events                 read_events                   read
        POST /flows                  submit_flow                   submit|work +
        PUT  /flows                  create_flow                   submit
        GET  /flows                  list_flows                    read
        """,
    ),
    *_group(
        "/flows/{flow_id}",
        Reach.FLOW,
        """
        GET  .                       describe_flow                 read
        GET  /wait                   wait_for_flow                 read
        GET  /members                list_flow_members             read
        GET  /edges                  list_edges                    read
        GET  /edges/{edge_id}        describe_edge                 read
        POST /growth                 grow_flow                     submit|work +
        POST /members                add_execution_to_flow         submit
        POST /edges                  stage_dependency_edge         submit
        POST /edges/apply            apply_dependency_to_child     submit
        POST /groups                 set_edge_group_policy         submit
        POST /cancel                 cancel_flow                   operate
        POST /continue               continue_flow                 admin
        POST /tags                   set_flow_tags                 operate
        """,
    ),
)

BY_PORT: Final[dict[str, Operation]] = {each.port: each for each in OPERATIONS}
