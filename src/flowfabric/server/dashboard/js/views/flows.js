// All flows, newest first.

import { get } from "../api.js";
import { h, show } from "../dom.js";
import { live } from "../live.js";
import { badge, card, empty, flowLink, heading, problem, table, when } from "../parts.js";
import { number } from "../words.js";

const EVERY_MS = 3000;
const STATUSES = ["active", "completed", "failed", "cancelled"];
const LESSON = `async with fabric.flow("research") as flow:
    planned = flow.add(plan, "tides")
    found = flow.map(search, range(20), planned)
    flow.add(write, found)`;

export function flows(main, { query, signal }) {
  const cursors = [null];
  const look = live(async () => {
    try {
      const filter = { status: query.get("status"), limit: 50, cursor: cursors.at(-1) };
      const page = await get("/flows", filter, signal);
      draw(main, query, page, cursors, look);
    } catch (error) {
      if (!signal.aborted) show(main, heading("Flows"), problem(error));
      throw error;
    }
  }, EVERY_MS, signal);
}

function draw(main, query, page, cursors, look) {
  const status = query.get("status");
  const pick = (event) => (location.hash = `#/flows${event.target.value ? `?status=${event.target.value}` : ""}`);
  const choose = h("select", { "aria-label": "Status", onchange: pick }, h("option", { value: "" }, "Any status"),
    STATUSES.map((each) => h("option", { value: each, selected: each === status }, each)));
  const rows = page.flows.map((flow) => ({
    key: flow.flow_id,
    cells: [badge(flow.public_flow_state), flow.flow_kind, flowLink(flow.flow_id), flow.namespace, number(flow.node_count), when(flow.created_at), when(flow.ended_at)],
  }));
  const nothing = status ? empty("No flow matches.") : empty("There are no flows yet. Pass the result of one task to another to build a flow:", LESSON);
  show(
    main,
    heading("Flows", choose),
    card(null, rows.length ? table("Flows", ["State", "Kind", "Flow", "Namespace", "Members", "Created", "Ended"], rows) : nothing, paging(cursors, page.next_cursor, look)),
  );
}

export function paging(cursors, next, look) {
  if (cursors.length === 1 && !next) return null;
  const turn = (change) => () => {
    change();
    look.now();
  };
  return h(
    "nav",
    { class: "paging", "aria-label": "Pages" },
    h("button", { type: "button", disabled: cursors.length === 1, onclick: turn(() => cursors.pop()) }, "Back"),
    h("span", {}, `Page ${cursors.length}`),
    h("button", { type: "button", disabled: !next, onclick: turn(() => cursors.push(next)) }, "More"),
  );
}
