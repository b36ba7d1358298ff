// The exception that ended an attempt: its notes, its calls with their source lines, and the exceptions behind it.

import { h } from "./dom.js";

export const exception = (detail) =>
  h("details", { class: "exception" }, h("summary", {}, "Traceback"), told(detail));

function told(detail, how = "") {
  const text = detail.message ? `${detail.type}: ${detail.message}` : detail.type;
  return h(
    "div",
    { class: "raised" },
    h("p", { class: "what" }, how && h("span", { class: "muted" }, how), text),
    (detail.notes ?? []).map((note) => h("p", { class: "note" }, note)),
    calls(detail),
    (detail.members ?? []).map((member, index) => told(member, `member ${index + 1}: `)),
    detail.members_left_out > 0 && h("p", { class: "muted" }, `and ${detail.members_left_out} more members`),
    detail.cause && told(detail.cause, "caused by "),
    detail.context && told(detail.context, "while handling "),
  );
}

// The most recent call is the last.
function calls({ frames = [], frames_left_out: leftOut = 0 }) {
  if (!frames.length) return null;
  const rows = frames.map((frame) => h("li", {}, h("span", { class: "muted" }, `${frame.file}:${frame.line} `, h("strong", {}, frame.function)), frame.source && h("code", {}, frame.source)));
  if (leftOut) rows.splice(Math.floor(rows.length / 2), 0, h("li", { class: "muted" }, `… ${leftOut} calls left out`));
  return h("ol", { class: "calls mono" }, rows);
}
