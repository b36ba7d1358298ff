// Several panes in one place. The element manages itself, so that a redraw of the page keeps the chosen pane.

import { h } from "./dom.js";

let made = 0;

// panes: [title, element or {element, open}]; `open` is called when the pane is shown for the first time.
export function tabs(panes) {
  made += 1;
  const buttons = panes.map(([title], index) => h("button", { type: "button", role: "tab", id: `tab-${made}-${index}`, onclick: () => choose(index) }, title));
  const bodies = panes.map(([, pane], index) => h("div", { role: "tabpanel", "aria-labelledby": `tab-${made}-${index}` }, pane.element ?? pane));
  const choose = (chosen) => {
    buttons.forEach((each, index) => each.setAttribute("aria-selected", index === chosen));
    bodies.forEach((each, index) => each.toggleAttribute("hidden", index !== chosen));
    panes[chosen][1].open?.();
  };
  choose(0);
  return h("div", { class: "tabs", "data-keep": true }, h("div", { role: "tablist", class: "tablist" }, buttons), bodies);
}
