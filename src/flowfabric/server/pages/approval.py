"""The page behind a waitpoint link: the question, the answer form, and the outcome."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

from flowfabric.core import contracts as c
from flowfabric.core.forms import WaitForm
from flowfabric.server.pages.fields import APPROVE, CHOICE, REJECT, Answers, Field, Fields

# From the address of a signal to the root of the server, wherever a proxy has put it.
_UP: Final = "../" * 5


class Asked(NamedTuple):
    """An open waitpoint with its question."""

    waitpoint: c.PendingWaitpointInfo
    execution: c.ExecutionInfo
    form: WaitForm | None
    signal_name: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """The allowed signal names; empty: any name."""
        return (self.signal_name,) if self.signal_name else tuple(self.waitpoint.required_signal_names)


def asking(asked: Asked, token: str, *, problem: str = "", given: Mapping[str, str] | None = None) -> str:
    """The question with its form. `given` holds the values of a rejected form."""
    answers, given = Answers(asked.form).form, given or {}
    question = (asked.form.question if asked.form else "") or f"{asked.execution.execution_kind} waits for your answer"
    first, _, rest = question.partition("\n")
    body = [f"<h1>{escape(first)}</h1>"]
    body += [f'<p class="text">{escape(each)}</p>' for each in (rest.strip(), answers.note) if each]
    body.append(_facts(asked))
    if problem:
        body.append(f'<p class="problem" role="alert">{escape(problem)}</p>')
    body.append(_form(asked, answers, token, given))
    return _page(first, body)


def telling(title: str, text: str) -> str:
    """A page with a message only."""
    return _page(title, [f"<h1>{escape(title)}</h1>", f'<p class="text">{escape(text)}</p>'])


def _facts(asked: Asked) -> str:
    facts = {
        "Task": asked.execution.execution_kind,
        "Execution": asked.execution.execution_id.short,
        "Asked": _time(asked.waitpoint.created_at),
        "Until": _time(asked.waitpoint.expires_at) if asked.waitpoint.expires_at is not None else "",
    }
    rows = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts.items() if value)
    return f"<dl>{rows}</dl>"


def _form(asked: Asked, answers: Fields, token: str, given: Mapping[str, str]) -> str:
    once = given.get("once") or secrets.token_urlsafe(12)
    hidden = {"token": token, "once": once}
    parts = [f'<input type="hidden" name="{name}" value="{escape(value)}">' for name, value in hidden.items()]
    parts.append(_names(asked, given.get("name", "")))
    parts += [_field(each, given.get(each.key, each.value)) for each in answers.fields]
    parts.append(_buttons(answers))
    return f'<form method="post" action="signals" autocomplete="off">{"".join(parts)}</form>'


def _names(asked: Asked, given: str) -> str:
    """The signal name; usually there is only one."""
    names = asked.names
    if len(names) == 1:
        return f'<input type="hidden" name="name" value="{escape(names[0])}">'
    label = '<div class="field"><label for="name">Signal</label>'
    if not names:
        return f'{label}<input id="name" name="name" required value="{escape(given)}"></div>'
    options = "".join(f"<option{' selected' if each == given else ''}>{escape(each)}</option>" for each in names)
    return f'{label}<select id="name" name="name">{options}</select></div>'


def _field(field: Field, given: str) -> str:
    note = f"<small>{escape(field.note)}</small>" if field.note else ""
    optional = "" if field.is_required else " (optional)"
    head = f'<label for="{escape(field.key)}">{escape(field.label)}{optional}</label>'
    return f'<div class="field">{head}{note}{_input(field, given)}</div>'


def _input(field: Field, given: str) -> str:
    head = f'id="{escape(field.key)}" name="{escape(field.key)}"'
    if field.is_required and field.kind != "string":
        head += " required"
    match field.kind:
        case "boolean":
            return _select(head, [("true", "Yes"), ("false", "No")], given)
        case "choice":
            return _select(head, [(each.value, each.text) for each in field.options], given)
        case "integer" | "number":
            step = "1" if field.kind == "integer" else "any"
            return f'<input {head} type="number" step="{step}" value="{escape(given)}">'
        case "string":
            return f'<textarea {head} rows="2">{escape(given)}</textarea>'
    return f'<textarea {head} rows="4" placeholder="JSON" spellcheck="false">{escape(given)}</textarea>'


def _select(head: str, options: list[tuple[str, str]], given: str) -> str:
    rows = "".join(
        f'<option value="{escape(value)}"{" selected" if value == given else ""}>{escape(text)}</option>'
        for value, text in options
    )
    return f'<select {head}><option value=""></option>{rows}</select>'


def _buttons(answers: Fields) -> str:
    if not answers.is_decision:
        return '<p class="buttons"><button class="yes">Send</button></p>'
    both = "".join(
        f'<button name="{CHOICE}" value="{value}" class="{kind}">{text}</button>'
        for value, kind, text in ((APPROVE, "yes", "Approve"), (REJECT, "no", "Reject"))
    )
    return f'<p class="buttons">{both}</p>'


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _page(title: str, body: list[str]) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="robots" content="noindex"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title>"
        f'<link rel="stylesheet" href="{_UP}pages/approval.css"></head>'
        f"<body><main>{''.join(body)}</main></body></html>"
    )
