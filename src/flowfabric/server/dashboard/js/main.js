// The frame around the views: where one is, how one gets elsewhere, and the keyboard.

import { ask } from "./dialogs.js";
import { h, show } from "./dom.js";
import { setTheme, theme, THEMES } from "./theme.js";
import { forget, token } from "./token.js";
import { budgets } from "./views/budgets.js";
import { execution } from "./views/execution.js";
import { executions } from "./views/executions.js";
import { flow } from "./views/flow.js";
import { flows } from "./views/flows.js";
import { inbox } from "./views/inbox.js";
import { lanes } from "./views/lanes.js";
import { overview } from "./views/overview.js";
import { workers } from "./views/workers.js";

const VIEWS = [
  ["", "Overview", "o", overview],
  ["executions", "Executions", "e", executions, execution],
  ["flows", "Flows", "f", flows, flow],
  ["inbox", "Inbox", "i", inbox],
  ["lanes", "Lanes", "l", lanes],
  ["workers", "Workers", "w", workers],
  ["budgets", "Budgets", "b", budgets],
];

const main = document.getElementById("main");
let leaving = new AbortController();
let shown = null;

// `#/executions/<id>?state=failed` is the view, what it is about, and how it is filtered.
function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  return { name, id: decodeURIComponent(rest.join("/")), query: new URLSearchParams(query) };
}

function go() {
  const { name, id, query } = place();
  const [key, title, , list, one] = VIEWS.find(([each]) => each === name) ?? VIEWS[0];
  leaving.abort();
  leaving = new AbortController();
  document.title = `${title} · FlowFabric`;
  drawTop(key);
  const isAnother = shown !== `${key}/${id}`;
  if (isAnother) main.replaceChildren();
  (id && one ? one : list)(main, { id, query, signal: leaving.signal });
  if (isAnother && shown !== null) main.focus({ preventScroll: true });
  if (isAnother) scrollTo(0, 0);
  shown = `${key}/${id}`;
}

function drawTop(current) {
  const links = VIEWS.map(([key, title, letter]) =>
    h("a", { href: `#/${key}`, title: `g then ${letter}`, "aria-current": key === current ? "page" : null }, title),
  );
  const themes = h(
    "select",
    { "aria-label": "Colours", onchange: (event) => setTheme(event.target.value) },
    THEMES.map((each) => h("option", { value: each, selected: each === theme() }, each)),
  );
  const leave = () => {
    forget();
    location.reload();
  };
  show(
    document.getElementById("top"),
    h("a", { href: "#/", class: "brand" }, h("img", { src: "dashboard/icon.svg", alt: "", width: 24, height: 24 }), "FlowFabric"),
    h("nav", { "aria-label": "Views" }, links),
    h(
      "div",
      { class: "tools" },
      themes,
      h("button", { type: "button", class: "quiet", "aria-label": "Keyboard", title: "Keyboard", onclick: help }, "?"),
      token() && h("button", { type: "button", class: "quiet", onclick: leave }, "Sign out"),
    ),
  );
}

function help() {
  const keys = VIEWS.map(([, title, letter]) => `g ${letter}: ${title}`).join(", ");
  ask({ title: "Keyboard", text: `/: search, ?: this, ${keys}. Tab and Enter do the rest.`, action: "Good" });
}

let after = "";
function onKey(event) {
  const isTyping = event.target.closest?.("input, textarea, select, dialog");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const view = after === "g" && VIEWS.find(([, , letter]) => letter === event.key);
  after = event.key;
  if (view) location.hash = `#/${view[0]}`;
  else if (event.key === "?") help();
  else if (event.key === "/" && document.querySelector("[type=search]")) {
    event.preventDefault();
    document.querySelector("[type=search]").focus();
  }
}

addEventListener("hashchange", go);
addEventListener("keydown", onKey);
go();
