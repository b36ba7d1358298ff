// Questions, and telling what came of the answer.

import { h } from "./dom.js";

const TOLD_MS = 6000;

// Ask something; answers the values of the fields by name, or null when it was not to be.
export function ask({ title, text, fields = [], action, danger = false }) {
  return new Promise((answer) => {
    const inputs = fields.map(field);
    const cancel = h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Not now");
    const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, action);
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", { id: "dialog-title" }, title),
      text && h("p", {}, text),
      inputs.map(({ label }) => label),
      h("div", { class: "buttons" }, cancel, go),
    );
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    let given = null;
    form.addEventListener("submit", () => {
      given = Object.fromEntries(inputs.map(({ name, input }) => [name, input.value]));
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      answer(given);
    });
    document.body.append(dialog);
    dialog.showModal();
    (inputs[0]?.input ?? (danger ? cancel : go)).focus();
  });
}

function field({ name, label, value = "", type = "text", options, hint, required = false }) {
  const id = `field-${name}`;
  const common = { id, name, required, autocomplete: "off" };
  let input;
  if (options) input = h("select", common, options.map((each) => h("option", { value: each }, each)));
  else if (type === "json") input = h("textarea", { ...common, rows: "5", spellcheck: "false" });
  else input = h("input", { ...common, type });
  input.value = value;
  const text = h("label", { class: "field", for: id }, h("span", {}, label), input, hint && h("small", {}, hint));
  return { name, input, label: text };
}

export function tell(text, kind = "good") {
  const note = h("p", { class: `told ${kind}` }, text);
  document.getElementById("told").append(note);
  setTimeout(() => note.remove(), TOLD_MS);
}

// Do something and tell how it went; answers whether it went well.
export async function doing(work, done) {
  try {
    const result = await work();
    tell(typeof done === "function" ? done(result) : done);
    return true;
  } catch (error) {
    tell(error.message, "bad");
    return false;
  }
}
