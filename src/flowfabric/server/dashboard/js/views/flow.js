// One flow: its graph, coloured as it runs, and its members.

import { all, flowPath, follow, get, post } from "../api.js";
import { ask, doing } from "../dialogs.js";
import { h, show } from "../dom.js";
import { drawGraph, graphPane } from "../graph.js";
import { live } from "../live.js";
import { badge, button, card, empty, executionLink, facts, heading, problem, table, when } from "../parts.js";
import { number, plain, span } from "../words.js";

const EVERY_MS = 1500;
const DRAWN = 500;

export function flow(main, { id, signal }) {
  const pane = graphPane();
  let edges = [];
  let seen = null;
  const look = live(async () => {
    try {
      const found = await get(flowPath(id), {}, signal);
      const members = await all(flowPath(id, "/members"), { limit: 1000 }, "members", DRAWN, signal);
      const now = JSON.stringify([found.graph_revision, found.ended_counts]); // edges change with these alone
      if (now !== seen) {
        edges = await all(flowPath(id, "/edges"), { limit: 1000 }, "edges", 4 * DRAWN, signal);
        seen = now;
      }
      draw(main, found, members, pane, look);
      drawGraph(pane, members, edges);
    } catch (error) {
      if (!signal.aborted) show(main, heading("Flow"), problem(error), h("p", {}, h("a", { href: "#/flows" }, "All flows")));
      throw error;
    }
  }, EVERY_MS, signal);
  follow(flowPath(id, "/events"), look, signal);
}

function draw(main, found, members, pane, look) {
  const state = found.public_flow_state;
  const ended = Object.entries(found.ended_counts).map(([outcome, count]) => `${number(count)} ${outcome === "success" ? "completed" : plain(outcome)}`).join(", ");
  const rows = members.map((each) => ({
    key: each.execution_id,
    cells: [badge(each.public_state), each.execution_kind, executionLink(each.execution_id), each.lane_id, when(each.started_at), took(each), each.failure_reason ?? ""],
  }));
  show(
    main,
    heading(found.flow_kind, badge(state), found.ended_at == null && button("Cancel…", () => cancel(found, look), "danger")),
    h("p", { class: "id mono" }, found.flow_id),
    card(null, facts([
      ["Members", number(found.node_count)],
      ["Ended", ended || "none"],
      ["Namespace", found.namespace],
      ["Failure policy", plain(found.failure_policy)],
      ["Created", when(found.created_at)],
      ["Ended at", found.ended_at && when(found.ended_at)],
      ["Cancel reason", found.cancel_reason],
      ["Failed member", found.failed_execution_id && executionLink(found.failed_execution_id)],
      ["Stands in", found.parent_execution_id && executionLink(found.parent_execution_id)],
    ])),
    card("Graph", members.length ? pane.element : empty("The flow has no members yet."), found.node_count > DRAWN && h("p", { class: "muted" }, `The first ${DRAWN} of ${number(found.node_count)} members are drawn.`)),
    rows.length > 0 && card("Members", table("Members", ["State", "Kind", "Execution", "Lane", "Started", "Took", "Failure"], rows)),
  );
}

const took = ({ started_at: from, completed_at: to }) => (from == null ? "–" : span((to ?? Date.now()) - from));

async function cancel(found, look) {
  const given = await ask({
    title: "Cancel this flow?",
    text: "No member can start after this.",
    fields: [
      { name: "policy", label: "What happens to its members", options: ["cancel_all", "cancel_pending", "flow_only"], value: "cancel_all" },
      { name: "reason", label: "Reason", value: "cancelled in the dashboard" },
    ],
    action: "Cancel it",
    danger: true,
  });
  const body = given && { reason: given.reason, cancellation_policy: given.policy };
  if (given && (await doing(() => post(flowPath(found.flow_id, "/cancel"), body), "The flow was cancelled."))) look();
}
