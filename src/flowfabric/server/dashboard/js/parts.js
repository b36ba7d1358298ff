// Small pieces that several views are made of.

import { h, svg } from "./dom.js";
import { tell } from "./dialogs.js";
import { ago, moment, plain, short } from "./words.js";

export const badge = (state) => h("span", { class: `badge ${state}` }, plain(state));

export const executionLink = (id, text = short(id)) =>
  h("a", { href: `#/executions/${encodeURIComponent(id)}`, class: "mono", title: id }, text);

export const flowLink = (id, text = short(id)) =>
  h("a", { href: `#/flows/${encodeURIComponent(id)}`, class: "mono", title: id }, text);

export const when = (ms) =>
  ms == null ? "–" : h("time", { datetime: new Date(ms).toISOString(), title: moment(ms) }, ago(ms));

export const button = (text, onclick, kind = "") => h("button", { type: "button", class: kind, onclick }, text);

export const card = (title, ...children) =>
  h("section", { class: "card" }, title && h("h2", {}, title), ...children);

export const problem = (error) => h("p", { class: "problem", role: "alert" }, error.message);

export const heading = (title, ...beside) => h("div", { class: "heading" }, h("h1", {}, title), ...beside);

// An empty list that says how the first row comes about.
export function empty(text, lesson) {
  return h("div", { class: "empty" }, h("p", {}, text), lesson && code(lesson));
}

export function code(text) {
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    tell("Copied.");
  };
  return h("div", { class: "code" }, h("pre", { tabindex: "0" }, text), button("Copy", copy, "quiet small"));
}

// A table whose cells know their column, so that a narrow screen can show rows as cards.
export function table(label, columns, rows) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, columns.map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", {}, rows.map(({ key, cells }) => h("tr", { "data-key": key }, cells.map((cell, index) =>
        h("td", { "data-column": typeof columns[index] === "string" ? columns[index] : "" }, cell),
      )))),
    ),
  );
}

export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, shown.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

// How much of a whole: parts of [state, value].
export function bar(parts, whole, label) {
  let x = 0;
  const rects = parts.filter(([, value]) => value > 0).map(([kind, value]) => {
    const width = Math.min(100 - x, (100 * value) / whole);
    const rect = svg("rect", { class: `fill ${kind}`, x: x.toFixed(2), y: 0, width: width.toFixed(2), height: 8 });
    x += width;
    return rect;
  });
  return svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("rect", { class: "rest", width: 100, height: 8 }), rects);
}
