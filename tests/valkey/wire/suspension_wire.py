"""Suspensions, waitpoints, signals and secrets as another program calls them: plain FCALL, documented positions."""

from __future__ import annotations

import json
import uuid
from typing import Any

import valkey

from tests.valkey.wire.wire import Execution, Reply

FAR = 9_000_000_000_000
SECRET = "ab" * 32
ANY = "{}"
FORM = '{"schema":{"type":"boolean"}}'
# The arguments of a suspension after its lease history, with a form: no key, no more waitpoints, no timeout, no seed.
WITH_FORM = ("", "", 0, "", "", "", FORM)


def named(*names: str, mode: str = "any", minimum: int = 1) -> str:
    return json.dumps({
        "condition_type": "signal_set", "required_signal_names": names, "signal_match_mode": mode,
        "minimum_signal_count": minimum, "timeout_behavior": "fail", "allow_operator_override": True,
    })  # fmt: skip


def composite(tree: dict[str, Any], version: int = 1) -> str:
    return json.dumps({"v": version, "composite": True, "tree": tree, "required_signal_names": ["__composite__"]})


def single(key: str, name: str = "") -> dict[str, Any]:
    matcher = {"kind": "ByName", "name": name} if name else {"kind": "Wildcard"}
    return {"kind": "Single", "waitpoint_key": key, "matcher": matcher}


def all_of(*members: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "AllOf", "members": members}


def count(n: int, kind: str, keys: list[str], name: str = "") -> dict[str, Any]:
    matcher = {"kind": "ByName", "name": name} if name else None
    return {"kind": "Count", "n": n, "count_kind": kind, "waitpoints": keys, "matcher": matcher}


class Waiting(Execution):
    """An execution that suspends; it remembers the waitpoint of its latest suspension and the token."""

    def __init__(self, client: valkey.Valkey) -> None:
        super().__init__(client)
        self.epoch = 1
        self.waitpoint = self.key = self.token = self.suspension = ""
        self.spent_at = self.spent = ""  # an earlier waitpoint and its token

    @property
    def secrets(self) -> str:
        return f"ff:sec:{self.tag}:waitpoint_hmac"

    @property
    def known_of_secrets(self) -> str:
        return f"ff:kid:{self.tag}"

    def filled(self, count: int) -> list[str]:
        return [self.core, *[f"ff:noop:{self.tag}"] * (count - 1)]

    def seed(self, kid: str = "k1", secret: str = SECRET, *extra: object) -> Reply:
        return self.fcall("ff_seed_waitpoint_hmac_secret", [self.secrets], kid, secret, *extra)

    def rotate(self, kid: str, secret: str, grace: object = 60_000, *extra: object) -> Reply:
        return self.fcall("ff_rotate_waitpoint_hmac_secret", [self.secrets], kid, secret, grace, *extra)

    def kids(self, *form: str) -> Reply:
        return self.fcall("ff_list_waitpoint_hmac_kids", [self.secrets], *form)

    def started(self) -> Waiting:
        self.seed()
        self.run()
        return self

    def suspend(
        self, condition: str = ANY, *, timeout: object = "", behavior: str = "fail", pending: str = "",
        policy: str = "", reason: str = "waiting_for_signal", waitpoint: str | None = None, key: str | None = None,
        extra: tuple[object, ...] = (), suspension: str | None = None,
    ) -> Reply:  # fmt: skip
        waitpoint = str(uuid.uuid4()) if waitpoint is None else waitpoint
        key = f"wpk:{waitpoint}" if key is None else key
        suspension = str(uuid.uuid4()) if suspension is None else suspension
        reply = self.fcall("ff_suspend_execution", self.filled(17), self.id, 0, self.attempt, self.lease, self.epoch,
                           suspension, waitpoint, key, reason, "worker", timeout, condition, policy, "", pending,
                           behavior, 1000, *extra)  # fmt: skip
        if reply[0] == 1:
            self.suspension, self.waitpoint, self.key, self.token = reply[2:6]
        return reply

    def pending(self, waitpoint: str | None = None, *extra: object, expires_at: object = FAR, index: int = 0) -> Reply:
        waitpoint = waitpoint or str(uuid.uuid4())
        reply = self.fcall("ff_create_pending_waitpoint", self.filled(4), self.id, index, waitpoint, f"wpk:{waitpoint}",
                           expires_at, *extra)  # fmt: skip
        if reply[0] == 1:
            self.waitpoint, self.key, self.token = reply[2:5]
        return reply

    def _send(self, function: str, keys: int, extra: tuple[object, ...], **given: Any) -> Reply:
        values = {
            "signal": str(uuid.uuid4()), "waitpoint": self.waitpoint, "name": "approval", "source": "ann",
            "payload": b'{"ok":true}', "idem": "", "delay": "", "maxlen": 1000, "most": 10_000, "token": self.token,
        } | given  # fmt: skip
        return self.fcall(function, self.filled(keys), values["signal"], self.id, values["waitpoint"], values["name"],
                          "decision", "human", values["source"], values["payload"], "json", values["idem"], "",
                          "waitpoint", "", 86_400_000, values["delay"], values["maxlen"], values["most"],
                          values["token"], *extra)  # fmt: skip

    def deliver(self, *extra: object, **given: Any) -> Reply:
        return self._send("ff_deliver_signal", 14, extra, **given)

    def buffer(self, *extra: object, **given: Any) -> Reply:
        return self._send("ff_buffer_signal_for_pending_waitpoint", 9, extra, **given)

    def send(self, *extra: object, **given: Any) -> Reply:
        """Without a token."""
        values = {"signal": str(uuid.uuid4()), "name": "approval", "key": "", "payload": b"{}", "most": ""} | given
        return self.fcall("ff_signal_execution", [self.core], self.id, values["signal"], values["name"], values["key"],
                          values["payload"], "json", "", "", "", "", "", "execution", "", 86_400_000, "", 1000,
                          values["most"], *extra)  # fmt: skip

    def reject(self, *rejected: object, suspension: str | None = None, form: str = "", epoch: object = None) -> Reply:
        suspension = str(uuid.uuid4()) if suspension is None else suspension
        return self.fcall("ff_reject_signals", [self.core], self.id, self.attempt, self.lease,
                          self.epoch if epoch is None else epoch, suspension, form, *rejected)  # fmt: skip

    def resume(self, *args: object) -> Reply:
        return self.fcall("ff_resume_execution", self.filled(8), self.id, *args)

    def expire_suspension(self) -> Reply:
        return self.fcall("ff_expire_suspension", self.filled(12), self.id)

    def close(self, *extra: object, waitpoint: str | None = None) -> Reply:
        waitpoint = self.waitpoint if waitpoint is None else waitpoint
        return self.fcall("ff_close_waitpoint", self.filled(3), waitpoint, "enough", *extra)

    def due(self, limit: int = 100) -> Reply:
        """What was done, up to the waitpoints that were closed."""
        return self.fcall("ff_due_batch", [f"ff:part:{self.tag}:events"], limit)[:12]

    def go_on(self) -> Waiting:
        """Claim the interrupted attempt again."""
        assert self.grant()[0] == 1
        assert self.claim_resumed()[0] == 1
        self.epoch += 1
        return self

    def resume_signals(self, *args: object) -> Reply:
        """Its last member is the list of signals, the one before that the waitpoints."""
        return self.fcall("ff_list_resume_signals", [self.core], self.id, *args)

    def waitpoints(self, after: str = "", limit: int = 100) -> Reply:
        return self.fcall("ff_list_pending_waitpoints", [self.core], self.id, after, limit)

    def read_token(self, waitpoint: str) -> Reply:
        return self.fcall("ff_read_waitpoint_token", [self.core], self.id, waitpoint)

    def wp(self, suffix: str = "", waitpoint: str | None = None) -> str:
        return f"ff:wp:{self.tag}:{waitpoint or self.waitpoint}{suffix}"

    def fields(self, key: str) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.client.hgetall(key).items()}

    def events(self) -> list[str]:
        """The lines of this execution, without its id: event, attempt, epoch, outcome."""
        lines: list[str] = []
        for _, entry in self.client.xrange(f"ff:part:{self.tag}:events"):
            lines += [
                line.replace(f" {self.id} ", " ") for line in entry[b"lines"].decode().split("\n") if self.id in line
            ]
        return lines
