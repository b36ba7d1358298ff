// The workers that live.

import { all } from "../api.js";
import { h, show } from "../dom.js";
import { live } from "../live.js";
import { card, empty, heading, problem, table, when } from "../parts.js";
import { number, plural } from "../words.js";

const EVERY_MS = 3000;
const MOST = 1000;

export function workers(main, { signal }) {
  live(async () => {
    try {
      draw(main, await all("/workers", { limit: MOST }, "workers", MOST, signal));
    } catch (error) {
      if (!signal.aborted) show(main, heading("Workers"), problem(error));
      throw error;
    }
  }, EVERY_MS, signal);
}

function draw(main, found) {
  const tags = (names) => names.map((each) => h("span", { class: "tag" }, each));
  const rows = found.map((each) => ({
    key: `${each.namespace}/${each.worker_instance_id}`,
    cells: [
      h("span", { class: "mono" }, each.worker_instance_id),
      tags(each.lanes),
      each.tasks.length ? tags(each.tasks) : "any",
      each.capabilities.length ? tags(each.capabilities) : "–",
      number(each.slots),
      each.host || "–",
      each.version || "–",
      when(each.registered_at),
      when(each.last_heartbeat_at),
    ],
  }));
  const columns = ["Worker", "Lanes", "Tasks", "Capabilities", "Slots", "Host", "Version", "Since", "Last heartbeat"];
  show(
    main,
    heading("Workers", found.length > 0 && h("span", { class: "muted" }, plural(found.length, "worker"))),
    card(null, rows.length ? table("Workers", columns, rows) : empty("No worker is alive. Start one on any machine that reaches the store or this server:", "flowfabric worker my.module")),
  );
}
