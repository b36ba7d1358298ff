// Lanes: how full they are, what they let through, and their limits.

import { get, post } from "../api.js";
import { ask, doing } from "../dialogs.js";
import { h, show } from "../dom.js";
import { live } from "../live.js";
import { badge, bar, button, card, empty, heading, problem, table } from "../parts.js";
import { number, span } from "../words.js";

const EVERY_MS = 3000;
const path = (lane, rest = "") => `/lanes/${encodeURIComponent(lane)}${rest}`;

export function lanes(main, { signal }) {
  const look = live(async () => {
    try {
      const counts = await get("/counts", {}, signal);
      const settings = await Promise.all(counts.map(({ lane_id: lane }) => get(path(lane), {}, signal)));
      draw(main, counts.map((each, index) => ({ ...each, ...settings[index] })), look);
    } catch (error) {
      if (!signal.aborted) show(main, heading("Lanes"), problem(error));
      throw error;
    }
  }, EVERY_MS, signal);
}

function draw(main, found, look) {
  const rows = found.map((lane) => {
    const { lane_id: id, counts, state } = lane;
    const total = Object.values(counts).reduce((one, other) => one + other, 0);
    return {
      key: id,
      cells: [
        h("a", { href: `#/executions?lane=${encodeURIComponent(id)}` }, id),
        badge(state),
        number(counts.waiting ?? 0),
        number(counts.active ?? 0),
        span(lane.oldest_waiting_ms),
        limits(lane),
        bar(Object.entries(counts), total || 1, `${id} by state`),
        h("div", { class: "actions" },
          state === "active" ? button("Pause…", () => setState(id, "paused", look)) : button("Resume", () => setState(id, "active", look), "primary"),
          button("Limits…", () => configure(lane, look), "quiet")),
      ],
    };
  });
  const columns = ["Lane", "State", "Waiting", "Running", "Oldest", "Limits", "All", "Actions"];
  show(main, heading("Lanes"), card(null, rows.length ? table("Lanes", columns, rows) : empty("A lane appears with its first execution:", `flowfabric submit greet '"ada"' --lane mail`)));
}

function limits({ max_concurrency: most, key_concurrency: ofKey, ageing_ms_per_priority: ageing }) {
  const said = [most && `${number(most)} at once`, ofKey && `${number(ofKey)} of a key`, ageing && `ages every ${span(ageing)}`].filter(Boolean);
  return said.join(", ") || "none";
}

async function setState(lane, state, look) {
  const given = state === "active" || (await ask({ title: `Pause lane ${lane}?`, text: "Nothing in the lane starts until it is resumed; running attempts continue.", action: "Pause it", danger: true }));
  if (given && (await doing(() => post(path(lane, "/state"), { state }), state === "active" ? `${lane} is open.` : `${lane} is paused.`))) look();
}

async function configure(lane, look) {
  const given = await ask({
    title: `Limits of lane ${lane.lane_id}`,
    text: "An empty field sets no limit.",
    fields: [
      { name: "max_concurrency", label: "Concurrent executions", type: "number", value: lane.max_concurrency ?? "" },
      { name: "key_concurrency", label: "Per concurrency key", type: "number", value: lane.key_concurrency ?? "", hint: "empty: 1" },
      { name: "ageing_ms_per_priority", label: "Milliseconds of waiting that equal one step of priority", type: "number", value: lane.ageing_ms_per_priority ?? "" },
    ],
    action: "Set them",
  });
  if (!given) return;
  const body = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== "").map(([name, value]) => [name, Number(value)]));
  body.shared_queue = lane.shared_queue ?? false;
  if (await doing(() => post(path(lane.lane_id), body), "The limits are set.")) look();
}
