// An open waitpoint: its question, and the form of the declared type, as the approval page shows it.

import { executionPath, post } from "../api.js";
import { ask, doing, tell } from "../dialogs.js";
import { h } from "../dom.js";
import { when } from "../parts.js";
import { plain, until } from "../words.js";

const FOR_PEOPLE = new Set(["waiting_for_approval", "waiting_for_operator_review", "paused_by_operator"]);
const CHOICES = { approve: ["Approve", "primary"], reject: ["Reject", "danger"] };

export function waitpoint({ waitpoint: open, question, form }, { execution_id: id, execution_kind: kind, reason }, look) {
  const isForMachines = form.is_open && !question && !FOR_PEOPLE.has(reason);
  const names = open.required_signal_names;
  const [first, ...rest] = question.split("\n");
  const where = open.waitpoint_key.startsWith("wpk:") ? "" : ` at ${open.waitpoint_key}`; // others were named by people
  return h(
    "div",
    { class: "waitpoint", "data-key": open.waitpoint_id },
    question && h("h3", {}, first),
    rest.length > 0 && h("p", { class: "text" }, rest.join("\n").trim()),
    h("p", {}, h("strong", {}, names.length ? names.join(" or ") : "any signal"),
      h("span", { class: "muted" }, ` asked${where} `, when(open.activated_at ?? open.created_at), open.expires_at && `, closes ${until(open.expires_at)}`)),
    form.note && h("p", { class: "text muted" }, form.note),
    isForMachines
      ? h("details", {}, h("summary", {}, "Send a payload…"), fieldsOf(open, form, id, kind, look))
      : fieldsOf(open, form, id, kind, look),
  );
}

// The form keeps what was typed while the page is drawn again.
function fieldsOf(open, form, id, kind, look) {
  const send = async (event) => {
    event.preventDefault();
    const filled = event.currentTarget;
    const choice = event.submitter?.value ?? "";
    if (choice && !(await sure(kind, choice))) return;
    await answer(filled, choice, open, id, look);
  };
  const buttons = form.is_decision
    ? Object.entries(CHOICES).map(([value, [text, kindOf]]) => h("button", { value, class: kindOf }, text))
    : [h("button", { class: "primary" }, "Send")];
  return h(
    "form",
    { class: "answer", "data-keep": true, autocomplete: "off", onsubmit: send },
    named(open),
    form.fields.map((each) => field(each, `${open.waitpoint_id}-${each.key}`)),
    h("p", { class: "problem", role: "alert", hidden: true }),
    h("div", { class: "actions" }, buttons),
  );
}

const sure = (kind, choice) => ask({
  title: `${CHOICES[choice][0]}?`,
  text: `The answer goes to ${kind}. It cannot be taken back.`,
  action: CHOICES[choice][0],
  danger: choice === "reject",
});

// The name of the signal; usually there is only one.
function named({ waitpoint_id: id, required_signal_names: names }) {
  if (names.length === 1) return h("input", { type: "hidden", name: "signal", value: names[0] });
  const common = { id: `${id}-signal`, name: "signal", required: true };
  const input = names.length ? h("select", common, names.map((each) => h("option", { value: each }, each))) : h("input", common);
  return h("label", { class: "field", for: common.id }, h("span", {}, "Signal"), input);
}

function field({ key, label, kind, is_required: isRequired, note, value, options }, id) {
  const input = inputOf(kind, options, { id, name: key, required: isRequired && kind !== "string" });
  input.value = value;
  return h("label", { class: "field", for: id }, h("span", {}, isRequired ? label : `${label} (optional)`), note && h("small", {}, note), input);
}

function inputOf(kind, options, common) {
  const choices = { boolean: [["true", "Yes"], ["false", "No"]], choice: options.map((each) => [each.value, each.text]) }[kind];
  if (choices) return h("select", common, [["", ""], ...choices].map(([value, text]) => h("option", { value }, text)));
  if (kind === "integer" || kind === "number") return h("input", { ...common, type: "number", step: kind === "integer" ? "1" : "any" });
  return h("textarea", { ...common, rows: kind === "string" ? "2" : "4", spellcheck: "false", placeholder: kind === "json" ? "JSON" : "" });
}

async function answer(filled, choice, open, id, look) {
  const problem = filled.querySelector(".problem");
  const { signal, ...given } = Object.fromEntries(new FormData(filled));
  try {
    const outcome = await post(executionPath(id, `/waitpoints/${open.waitpoint_id}/answer`), {
      signal_name: signal,
      given: choice ? { ...given, choice } : given,
    });
    problem.hidden = true;
    tell(said(outcome));
  } catch (error) {
    problem.textContent = refused(error);
    problem.hidden = false;
    tell(refused(error), "bad");
  }
  look();
}

function said({ outcome, effect }) {
  if (outcome === "triggered_resume") return "Delivered: the execution resumes.";
  if (outcome === "duplicate") return "This answer was delivered before; nothing changed.";
  return {
    appended_to_waitpoint: "Delivered; the execution waits for more signals.",
    buffered_for_pending_waitpoint: "Kept: the handler does not wait here yet.",
    appended_to_waitpoint_duplicate: "Recorded, but this place has answered before: the execution waits for others.",
  }[effect] ?? "Recorded, but the execution does not wait for this signal.";
}

function refused({ code, message, details }) {
  if (code === "waitpoint_closed" || code === "waitpoint_not_found") return "Not delivered: it was already answered, or its time is up.";
  if (code === "target_not_signalable" && details.state) return `Not delivered: the execution is ${plain(details.state)} and waits no more.`;
  return `Not delivered: ${message}`;
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
