// What the handlers of an execution log, as it comes, filtered by level.

import { executionPath, follow } from "./api.js";
import { h } from "./dom.js";
import { moment } from "./words.js";

const LEVELS = [["debug", 0], ["info", 20], ["warning", 30], ["error", 40], ["critical", 50]];
const MOST = 2000; // records that are kept on the page

const nameOf = (level) => LEVELS.findLast(([, number]) => number <= level)[0];

// The pane, and `open`, which starts to read when the user looks. A stream costs a connection.
export function logs(id, signal) {
  const list = h("ol", {});
  const scroll = h("div", { class: "log mono", tabindex: "0", role: "log", "aria-label": "Logs" }, list);
  const none = h("p", { class: "muted" }, "Nothing was logged yet. Records of ctx.log appear here live.");
  let least = 0;
  const select = h("select", {
    "aria-label": "Level",
    onchange: () => {
      least = Number(select.value);
      for (const row of list.children) row.toggleAttribute("hidden", Number(row.dataset.level) < least);
    },
  }, LEVELS.map(([name, number]) => h("option", { value: number }, number ? `${name} and above` : "all levels")));
  const element = h("div", { class: "logs" }, h("p", {}, h("label", {}, "Level ", select)), none, scroll);

  const on = (kind, record) => {
    if (kind !== "record") return;
    none.hidden = true;
    const isAtEnd = scroll.scrollTop + scroll.clientHeight >= scroll.scrollHeight - 8;
    list.append(row(record, least));
    while (list.children.length > MOST) list.firstChild.remove();
    if (isAtEnd) scroll.scrollTop = scroll.scrollHeight;
  };
  let place = null;
  let isReading = false;
  const open = async () => {
    if (isReading) return;
    isReading = true;
    place = (await follow(executionPath(id, "/logs/stream"), on, signal, { after: place })) ?? place;
    isReading = false;
  };
  return { element, open };
}

function row(record, least) {
  const name = nameOf(record.level);
  const time = new Date(record.at_ms).toISOString().slice(11, 23);
  return h(
    "li",
    { class: `level-${name}`, "data-level": record.level, hidden: record.level < least },
    h("time", { class: "muted", title: `${moment(record.at_ms)}, attempt ${record.attempt_index}, ${record.logger}` }, time),
    h("span", { class: "level" }, name),
    h("span", { class: "message" }, record.message),
  );
}
