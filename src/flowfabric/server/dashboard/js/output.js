// What an execution emits, as it comes. A reset clears what no longer counts: it comes again.

import { executionPath, follow } from "./api.js";
import { h } from "./dom.js";
import { bytesOf } from "./payload.js";
import { number } from "./words.js";

const MOST = 5000; // pieces that are kept on the page

// Answers a function that reads on until the execution has ended; after a replay it is called again.
export function output(pane, id, signal) {
  let place = null;
  let isReading = false;
  const on = (kind, data) => {
    if (kind === "reset") pane.replaceChildren(h("p", { class: "attempt" }, `attempt ${data.attempt_index}`));
    if (kind === "frame") append(pane, data);
  };
  return async () => {
    if (isReading) return;
    isReading = true;
    place = (await follow(executionPath(id, "/stream"), on, signal, { after: place })) ?? place;
    isReading = false;
  };
}

function append(pane, { type, value, base64 }) {
  const isAtEnd = pane.scrollTop + pane.clientHeight >= pane.scrollHeight - 8;
  const isText = typeof value === "string";
  const text = isText ? value : base64 ? `${number(bytesOf(base64).length)} bytes\n` : `${JSON.stringify(value)}\n`;
  pane.append(h("span", { class: isText ? "" : "value", title: type }, text));
  while (pane.childNodes.length > MOST) pane.firstChild.remove();
  if (isAtEnd) pane.scrollTop = pane.scrollHeight;
}
