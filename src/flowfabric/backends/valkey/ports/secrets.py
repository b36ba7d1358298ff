"""SecretPort on Valkey: every partition has a copy of the waitpoint secrets, so that calls stay on one slot."""

from __future__ import annotations

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import Fields, FunctionCaller, Value, at_once
from flowfabric.backends.valkey.library.records import reading
from flowfabric.backends.valkey.ports.maintenance import tag_of
from flowfabric.core import contracts as c
from flowfabric.core.partition import Partition, PartitionConfig, PartitionFamily
from flowfabric.core.tokens import Kid, TokenAlgorithm
from flowfabric.errors import FlowFabricError


class ValkeySecrets:
    """The secrets that sign waitpoint tokens."""

    _caller: FunctionCaller
    partitions: PartitionConfig

    async def seed_waitpoint_hmac_secret(self, args: c.SeedWaitpointHmacSecretArgs) -> c.SeedOutcome:
        """The result to report: first a partition with another secret, then one that stored this secret."""
        outcomes = await at_once(self._seed(each, args) for each in self._all_partitions())
        seeded = [each for each in outcomes if isinstance(each, c.SecretSeeded)]
        differing = [each for each in outcomes if isinstance(each, c.SecretAlreadySeeded) and not each.same_secret]
        return (differing or seeded or outcomes)[0]

    async def rotate_waitpoint_hmac_secret(
        self, args: c.RotateWaitpointHmacSecretArgs
    ) -> c.RotateWaitpointHmacSecretOutcome:
        fields = await self._call_secrets(
            "rotate_waitpoint_hmac_secret",
            args.partition,
            new_kid=args.new_kid,
            new_secret_hex=args.new_secret_hex.reveal(),
            grace_ms=args.grace_ms,
            algorithm=args.algorithm,
            end_graces="1" if args.end_graces else "",
        )
        if fields.text(0) == "noop":
            return c.SecretUnchanged(kid=Kid(fields.text(1)))
        previous = fields.text(1)
        return c.SecretRotated(
            previous_kid=Kid.trusted(previous) if previous else None, new_kid=args.new_kid, gc_count=fields.number(3)
        )

    async def rotate_waitpoint_hmac_secret_all(
        self, args: c.RotateWaitpointHmacSecretAllArgs
    ) -> c.RotateWaitpointHmacSecretAllReport:
        entries = await at_once(self._rotate_or_report(each, args) for each in self._all_partitions())
        return c.RotateWaitpointHmacSecretAllReport(entries=tuple(entries))

    async def list_waitpoint_hmac_kids(self, args: c.ListWaitpointHmacKidsArgs) -> c.WaitpointHmacKids:
        fields = await self._call_secrets("list_waitpoint_hmac_kids", args.partition, form="algorithms")
        with reading("waitpoint secrets of partition", args.partition.tag):
            current, count = fields.text(0), fields.number(1)
            verifying = [
                c.VerifyingKid(
                    kid=Kid.trusted(fields.text(at)),
                    expires_at_ms=fields.number(at + 1),
                    algorithm=TokenAlgorithm(fields.text(at + 2)),
                )
                for at in range(3, 3 + 3 * count, 3)
            ]
            return c.WaitpointHmacKids(
                current_kid=Kid.trusted(current) if current else None,
                current_algorithm=TokenAlgorithm(fields.text(2)) if current else None,
                verifying=tuple(sorted(verifying, key=lambda each: (each.expires_at_ms, each.kid))),
            )

    async def _seed(self, partition: Partition, args: c.SeedWaitpointHmacSecretArgs) -> c.SeedOutcome:
        fields = await self._call_secrets(
            "seed_waitpoint_hmac_secret",
            partition,
            kid=args.kid,
            secret_hex=args.secret_hex.reveal(),
            algorithm=args.algorithm,
        )
        if fields.text(0) == "seeded":
            return c.SecretSeeded(kid=args.kid)
        return c.SecretAlreadySeeded(kid=Kid.trusted(fields.text(1)), same_secret=fields.text(2) == "1")

    async def _rotate_or_report(
        self, partition: Partition, args: c.RotateWaitpointHmacSecretAllArgs
    ) -> c.RotateWaitpointHmacSecretAllEntry:
        result: c.PartitionRotationOutcome
        try:
            result = await self.rotate_waitpoint_hmac_secret(args.for_partition(partition))
        except FlowFabricError as error:
            result = c.SecretRotationFailed(code=error.code, message=error.message)
        return c.RotateWaitpointHmacSecretAllEntry(partition=partition, result=result)

    def _all_partitions(self) -> list[Partition]:
        return [Partition(PartitionFamily.FLOW, index) for index in range(self.partitions.num_flow_partitions)]

    async def _call_secrets(self, operation: str, partition: Partition, **args: Value) -> Fields:
        tag = tag_of(partition, self.partitions)
        return await self._caller.call(operation, {"hmac_secrets": keys.waitpoint_secrets(tag)}, args, subject=tag)
