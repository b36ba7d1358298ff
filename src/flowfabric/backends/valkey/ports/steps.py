"""StepPort on Valkey: one hash per execution; results are raw bytes."""

from __future__ import annotations

from flowfabric.backends.valkey.library.calls import Fields, FunctionCaller
from flowfabric.backends.valkey.library.records import reading
from flowfabric.backends.valkey.ports.executions import fence_args
from flowfabric.core import contracts as c


class ValkeySteps:
    """Recorded steps of handlers."""

    _caller: FunctionCaller

    async def record_step(self, args: c.RecordStepArgs) -> c.RecordStepResult:
        fields = await self._caller.call_execution(
            "record_step",
            args.execution_id,
            **fence_args(args.fence),
            step_name=args.step.name,
            occurrence=args.step.occurrence,
            input_digest=args.input_digest,
            result_encoding=args.encoding,
            result=args.payload,
            replace="1" if args.replace else None,
        )
        if fields.status == "DUPLICATE":
            return c.StepAlreadyRecorded(result=_record(args.step.name, args.step.occurrence, fields, 0))
        return c.StepRecorded()

    async def read_steps(self, args: c.ReadStepsArgs) -> c.ReadStepsPage:
        fields = await self._caller.call_execution(
            "read_steps", args.execution_id, cursor=args.cursor, limit=args.limit
        )
        with reading("steps of execution", args.execution_id):
            return c.ReadStepsPage(
                steps=tuple(_record(each.text(0), each.number(1), each, 2) for each in fields.entries(2)),
                next_cursor=fields.number(1) if fields.text(0) == "1" else None,
            )


def _record(name: str, occurrence: int, fields: Fields, at: int) -> c.StepRecord:
    """The digest, the encoding and the result, starting at a position."""
    return c.StepRecord(
        name=name,
        occurrence=occurrence,
        payload=fields.raw(at + 2),
        encoding=fields.text(at + 1) or None,
        input_digest=fields.text(at),
    )
