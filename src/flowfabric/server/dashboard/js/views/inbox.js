// Who or what is being waited for: the open waitpoints of suspended executions.

import { follow, get } from "../api.js";
import { h, show } from "../dom.js";
import { live } from "../live.js";
import { button, card, empty, executionLink, heading, problem, when } from "../parts.js";
import { plain, until } from "../words.js";
import { paging } from "./flows.js";
import { resume, waitpoint } from "./waitpoint.js";

const EVERY_MS = 5000;
const PAGE = 25;

export function inbox(main, { signal }) {
  const cursors = [null];
  const look = live(async () => {
    try {
      const page = await get("/inbox", { limit: PAGE, cursor: cursors.at(-1) }, signal);
      draw(main, page, cursors, look);
    } catch (error) {
      if (!signal.aborted) show(main, heading("Inbox"), problem(error));
      throw error;
    }
  }, EVERY_MS, signal);
  follow("/events/stream", look, signal, { events: JSON.stringify(["suspended", "signalled", "signal_rejected", "woken"]) });
}

function draw(main, page, cursors, look) {
  const nothing = card(null, empty("No execution waits for an answer. A handler can ask and wait without holding a worker:", `answer = await ctx.wait_for_signal("approval", timeout=3600)`));
  show(
    main,
    heading("Inbox", h("span", { class: "muted" }, "Executions that wait for a person or another system")),
    page.entries.length ? h("ul", { class: "inbox plain" }, page.entries.map((each) => entry(each, look))) : nothing,
    paging(cursors, page.next_cursor, look),
  );
}

function entry({ execution, execution_kind: kind, namespace, questions }, look) {
  const { execution_id: id, suspension_id: suspension } = execution;
  return h(
    "li",
    { class: "card", "data-key": id },
    h("div", { class: "heading" },
      h("h2", {}, executionLink(id, kind)),
      h("span", { class: "muted" }, `${plain(execution.reason)} · lane ${execution.lane_id} · ${namespace} · suspended `, when(execution.suspended_at)),
      h("div", { class: "actions" }, button("Resume…", () => resume(id, suspension, look), "quiet"))),
    execution.timeout_at && h("p", { class: "muted" }, `Its time is up ${until(execution.timeout_at)}: then ${plain(execution.timeout_behavior ?? "it ends")}.`),
    questions.length ? questions.map((each) => waitpoint(each, { execution_id: id, execution_kind: kind, reason: execution.reason }, look)) : h("p", { class: "muted" }, "No open waitpoint; the execution can be resumed."),
  );
}
