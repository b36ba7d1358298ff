// What happened to an execution: its attempts on a line of time, and its events one below the other.

import { h, svg } from "./dom.js";
import { exception } from "./exceptions.js";
import { badge } from "./parts.js";
import { ENDED, moment, plain, span } from "./words.js";

const MARKS = { completed: "good", failed: "bad", expired: "bad", lease_expired: "bad", lease_revoked: "bad", signal_rejected: "bad", suspended: "pause", woken: "go", resumed: "go", claimed: "go", reclaimed: "go" };

export function timeline({ events, attempts }) {
  if (!events.length) return h("p", { class: "muted" }, "The event log no longer contains these events.");
  const first = events[0].at_ms;
  return h("ol", { class: "timeline" }, events.map((event) => h(
    "li",
    { class: MARKS[event.event] ?? "", "data-key": event.cursor },
    h("span", { class: "at", title: moment(event.at_ms) }, event.at_ms === first ? "0" : `+${span(event.at_ms - first)}`),
    h("span", {}, h("strong", {}, plain(event.event)), said(event, attempts)),
  )));
}

function said(event, attempts) {
  const { attempt_index: attempt, lease_epoch: epoch } = event;
  const outcome = loss(event, attempts) ?? (event.outcome && plain(event.outcome));
  const parts = [attempt != null && `attempt ${attempt}`, epoch > 0 && `lease ${epoch}`, outcome].filter(Boolean);
  return parts.length ? h("span", { class: "muted" }, ` ${parts.join(", ")}`) : null;
}

// An attempt that lost its lease says why; its events hold only a code.
function loss({ event, attempt_index: index }, attempts) {
  if (event !== "requeued" && event !== "lease_expired") return null;
  const attempt = attempts.find((each) => each.attempt_index === index);
  return attempt?.failure_category === "infra_crash" ? attempt.failure_reason : "the worker stopped renewing its lease";
}

// Each attempt as a bar from its start to its end; a suspended attempt holds no worker.
export function attemptsBar({ info, attempts, events }) {
  if (!attempts.length) return null;
  const from = info.created_at;
  const to = Math.max(from + 1, ENDED.has(info.public_state) ? (info.completed_at ?? Date.now()) : Date.now());
  const x = (ms) => (100 * (Math.min(to, Math.max(from, ms)) - from)) / (to - from);
  const row = (attempt, index) => {
    const begin = attempt.started_at ?? from;
    const end = attempt.ended_at ?? to;
    const rect = (kind, start, stop) => svg("rect", { class: `fill ${kind}`, x: x(start).toFixed(2), width: Math.max(0.6, x(stop) - x(start)).toFixed(2), y: index * 12, height: 8 });
    return [rect(KINDS[attempt.state] ?? "active", begin, end), pauses(events, attempt.attempt_index, end).map(([start, stop]) => rect("suspended", start, stop))];
  };
  const label = `${attempts.length} attempts over ${span(to - from)}`;
  const said = attempts.map((each) => h("li", { "data-key": each.attempt_index }, `attempt ${each.attempt_index} `, badge(KINDS[each.state] ?? "active"),
    h("span", { class: "muted" }, ` ${plain(each.attempt_type)}, ${span((each.ended_at ?? to) - (each.started_at ?? from))}`), each.failure_reason && h("span", { class: "failure" }, each.failure_reason), each.failure_detail && exception(each.failure_detail)));
  return h("div", { class: "attempts" },
    svg("svg", { viewBox: `0 0 100 ${attempts.length * 12}`, preserveAspectRatio: "none", height: attempts.length * 12, role: "img", "aria-label": label }, attempts.map(row)),
    h("ol", { class: "plain" }, said));
}

const KINDS = { created: "waiting", started: "active", suspended: "suspended", ended_success: "completed", ended_failure: "failed", ended_cancelled: "cancelled", interrupted_reclaimed: "expired" };

function pauses(events, attempt, end) {
  const found = [];
  for (const event of events.filter((each) => each.attempt_index === attempt)) {
    const open = found.at(-1)?.length === 1;
    if (event.event === "suspended") found.push([event.at_ms]);
    else if (open && event.event !== "signalled") found.at(-1).push(event.at_ms);
  }
  return found.map(([start, stop]) => [start, stop ?? end]);
}
