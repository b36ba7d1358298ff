// What an operator can do with one execution; each asks first.

import { executionPath, post } from "../api.js";
import { ask, doing } from "../dialogs.js";
import { h } from "../dom.js";
import { button } from "../parts.js";
import { ENDED, RETRYABLE } from "../words.js";

export function actions(id, { info, snapshot }, look) {
  const state = info.public_state;
  const act = (path, question, body, done) => async () => {
    const given = await ask(question);
    if (given && (await doing(() => post(executionPath(id, path), body(given)), done))) look();
  };
  const cancel = act("/cancel", {
    title: "Cancel this execution?",
    text: "A running attempt is asked to stop. The execution can be retried later.",
    fields: [{ name: "reason", label: "Reason", value: "cancelled in the dashboard" }],
    action: "Cancel it",
    danger: true,
  }, ({ reason }) => ({ reason: reason || "dashboard", source: "operator_override" }), "Cancelled.");
  const retry = act("/retry", {
    title: "Retry this execution?",
    text: "It continues with a new attempt. Recorded steps are kept and do not run again.",
    action: "Retry it",
  }, () => ({}), "The execution continues with its recorded steps.");
  const replay = act("/replay", {
    title: "Run this execution again from the beginning?",
    text: "It starts with the same input and a new attempt. Recorded steps are discarded and run again; Retry keeps them.",
    action: "Replay it",
  }, () => ({}), "The execution runs again from its beginning.");
  const priority = act("/priority", {
    title: "Change its priority",
    text: "A higher priority starts first within the lane.",
    fields: [{ name: "priority", label: "Priority", type: "number", value: info.priority, required: true }],
    action: "Change it",
  }, ({ priority: given }) => ({ new_priority: Number(given) }), "The priority was changed.");
  const revoke = act("/revoke-lease", {
    title: "Revoke the lease of the worker?",
    text: "The calls of the worker are refused from then on, and another worker starts a new attempt.",
    action: "Revoke the lease",
    danger: true,
  }, () => ({ reason: "revoked in the dashboard" }), "The lease was revoked.");
  return h(
    "div",
    { class: "actions" },
    state === "waiting" && button("Priority…", priority),
    snapshot.current_lease && button("Revoke lease…", revoke),
    RETRYABLE.has(state) && button("Retry…", retry),
    ENDED.has(state) ? button("Replay…", replay) : button("Cancel…", cancel, "danger"),
  );
}
