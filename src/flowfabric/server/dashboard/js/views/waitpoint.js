// An open waitpoint: approve, reject, answer with whatever is asked for, or go on without an answer.

import { executionPath, post } from "../api.js";
import { ask, doing } from "../dialogs.js";
import { h } from "../dom.js";
import { button, when } from "../parts.js";
import { base64Of } from "../payload.js";
import { until } from "../words.js";

const APPROVED = { approved: true };
const REJECTED = { approved: false };

export function waitpoint(open, { execution_id: id, execution_kind: kind }, look) {
  const names = open.required_signal_names;
  const where = open.waitpoint_key.startsWith("wpk:") ? "" : ` at ${open.waitpoint_key}`; // others were named by people
  const done = (outcome) => (outcome.outcome === "triggered_resume" ? "Delivered: the execution resumes." : "Delivered; the execution waits for more signals.");
  const answer = async (title, action, payload, isEdited = false) => {
    const given = await ask({
      title,
      text: `${kind} waits${where} for ${names.length ? names.join(" or ") : "any signal"}.`,
      fields: [
        ...(names.length > 1 ? [{ name: "name", label: "Signal", options: names, value: names[0] }] : []),
        ...(names.length === 0 ? [{ name: "name", label: "Signal", value: "approval", required: true }] : []),
        ...(isEdited ? [{ name: "payload", label: "Payload", type: "json", value: JSON.stringify(payload, null, 2), hint: "JSON, as the handler's type= reads it" }] : []),
      ],
      action,
      danger: payload === REJECTED,
    });
    if (!given) return;
    const text = isEdited ? given.payload : JSON.stringify(payload);
    if (await doing(() => signal(id, open, given.name ?? names[0], text), done)) look();
  };
  return h(
    "div",
    { class: "waitpoint", "data-key": open.waitpoint_id },
    h("div", {},
      h("strong", {}, names.length ? names.join(" or ") : "any signal"),
      h("p", { class: "muted" }, `asked${where} `, when(open.activated_at ?? open.created_at), open.expires_at && `, closes ${until(open.expires_at)}`)),
    h("div", { class: "actions" },
      button("Approve", () => answer("Approve?", "Approve", APPROVED), "primary"),
      button("Reject", () => answer("Reject?", "Reject", REJECTED), "danger"),
      button("Answer…", () => answer("Answer", "Send", APPROVED, true))),
  );
}

function signal(id, open, name, payload) {
  JSON.parse(payload); // what is no JSON is not sent
  return post(executionPath(id, "/signals"), {
    signal_id: crypto.randomUUID(),
    signal_name: name,
    waitpoint_key: open.waitpoint_key,
    payload: base64Of(payload),
    payload_encoding: "json",
    source_type: "dashboard",
    source_identity: "operator",
  });
}

export async function resume(id, suspensionId, look) {
  const given = await ask({
    title: "Resume without an answer?",
    text: "The suspension ends and the handler continues; no signal is delivered.",
    action: "Resume it",
    danger: true,
  });
  const body = { trigger_type: "operator", suspension_id: suspensionId };
  if (given && (await doing(() => post(executionPath(id, "/resume"), body), "The execution resumes."))) look();
}
