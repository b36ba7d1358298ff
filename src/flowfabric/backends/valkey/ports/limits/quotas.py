"""QuotaPort on Valkey: one call on the quota's slot."""

from __future__ import annotations

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import Fields, Value, at_once
from flowfabric.backends.valkey.library.records import number, optional_number, reading
from flowfabric.backends.valkey.ports.limits.admissions import ValkeyAdmissions
from flowfabric.backends.valkey.ports.limits.budgets import owner_of
from flowfabric.core import contracts as c
from flowfabric.core.ids import QuotaPolicyId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import BadReply, Conflict


class ValkeyQuotas(ValkeyAdmissions):
    """Quotas: starts per window, and concurrency."""

    async def create_quota_policy(self, args: c.CreateQuotaPolicyArgs) -> c.CreateQuotaPolicyResult:
        fields = await self._call_quota(
            "create_quota_policy",
            args.quota_policy_id,
            now_ms=0,
            key_by=args.key_by,
            scope_type=args.scope_type,
            scope_id=args.scope_id,
            namespace=args.namespace,
            **_limits(args),
        )
        await self.attach_created(c.LimitKind.QUOTA, args.quota_policy_id, args.scope_type, args.scope_id)
        if fields.status == "ALREADY_SATISFIED":
            return c.QuotaPolicyAlreadySatisfied(quota_policy_id=args.quota_policy_id)
        return c.QuotaPolicyCreated(quota_policy_id=args.quota_policy_id)

    async def configure_quota_policy(self, args: c.ConfigureQuotaPolicyArgs) -> None:
        await self._call_quota("configure_quota_policy", args.quota_policy_id, **_limits(args))
        await self.wake_for_quota(args.quota_policy_id, "")

    async def get_quota_status(self, quota_policy_id: QuotaPolicyId, *, key: str = "") -> c.QuotaStatus:
        fields = await self._call_quota("describe_quota_policy", quota_policy_id, key_value=key)
        with reading("quota policy", quota_policy_id):
            return _status(quota_policy_id, fields)

    async def list_quota_policies(self, *, after: QuotaPolicyId | None = None, limit: int = 100) -> list[QuotaPolicyId]:
        count = self.partitions.num_quota_partitions
        tags = [Partition(PartitionFamily.QUOTA, index).tag for index in range(count)]
        found = await at_once(self._list_limits(f"ff:idx:{tag}:quota_policies", after, limit) for tag in tags)
        with reading("list of quota policies"):
            return [QuotaPolicyId(each) for each in sorted(each for ids in found for each in ids)[:limit]]

    async def check_admission(self, args: c.CheckAdmissionArgs) -> c.CheckAdmissionResult:
        reply = await self._caller.call_bare(
            "check_admission_and_record",
            {"quota": keys.quota(args.quota_policy_id, self.partitions)},
            {
                "now_ms": 0,
                "window_seconds": args.window_seconds,
                "rate_limit": args.rate_limit,
                "concurrency_cap": args.concurrency_cap,
                "execution_id": args.execution_id,
                "jitter_ms": args.jitter_ms,
                "ticket": args.ticket,
            },
            subject=args.execution_id,
        )
        return _admission(reply, args.execution_id)

    async def release_admission(self, args: c.ReleaseAdmissionArgs) -> c.ReleaseAdmissionResult:
        key = f"{keys.quota(args.quota_policy_id, self.partitions)}:admitted:{args.execution_id}"
        given: dict[str, Value] = {"execution_id": args.execution_id, "ticket": args.ticket}
        await self._caller.call("release_admission", {"admitted": key}, given, subject=args.execution_id)
        return c.AdmissionReleased()

    async def _call_quota(self, operation: str, quota_policy_id: QuotaPolicyId, /, **args: Value) -> Fields:
        key = keys.quota(QuotaPolicyId(quota_policy_id), self.partitions)
        return await self._caller.call(operation, {"quota": key}, args, subject=quota_policy_id)


def _limits(args: c.CreateQuotaPolicyArgs | c.ConfigureQuotaPolicyArgs) -> dict[str, Value]:
    return {
        "quota_policy_id": args.quota_policy_id,
        "window_seconds": args.window_seconds,
        "max_requests_per_window": args.max_requests_per_window,
        "max_concurrent": args.max_concurrent,
        "jitter_ms": args.jitter_ms,
    }


def _admission(reply: Fields, subject: str) -> c.CheckAdmissionResult:
    match reply.status:
        case "ADMITTED":
            return c.Admitted()
        case "ALREADY_ADMITTED":
            return c.AlreadyAdmitted()
        case "RATE_EXCEEDED":
            return c.RateExceeded(retry_after_ms=reply.number(0))
        case "CONCURRENCY_EXCEEDED":
            return c.ConcurrencyExceeded()
        case "RELEASED":
            raise Conflict(
                f"check_admission {subject}: its ticket was released; retry with a new one", code="claim_grant_expired"
            )
    raise BadReply(f"{reply.operation}: unknown status {reply.status!r}")


def _status(quota_policy_id: QuotaPolicyId, fields: Fields) -> c.QuotaStatus:
    found = fields.mapping(0)
    return c.QuotaStatus(
        quota_policy_id=quota_policy_id,
        window_seconds=number(found, "requests_per_window_seconds"),
        max_requests_per_window=number(found, "max_requests_per_window"),
        max_concurrent=number(found, "active_concurrency_cap"),
        jitter_ms=optional_number(found, "jitter_ms") or 0,
        key_by=found.get("key_by"),
        scope_type=found.get("scope_type"),
        scope_id=found.get("scope_id"),
        created_at=optional_number(found, "created_at"),
        running=fields.number(1),
        started=fields.number(2),
        room=fields.number(3),
        retry_after_ms=fields.number(4) if fields.text(4) else None,
        namespace=owner_of(found),
    )
