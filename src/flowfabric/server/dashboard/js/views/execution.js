// One execution: its state in words, why it does not run, what happened to it, what it says, and what one can do.

import { executionPath, follow, get, Problem } from "../api.js";
import { h, show } from "../dom.js";
import { live } from "../live.js";
import { logs } from "../logs.js";
import { output } from "../output.js";
import { badge, button, card, empty, executionLink, facts, flowLink, heading, problem, when } from "../parts.js";
import { payload } from "../payload.js";
import { tabs } from "../tabs.js";
import { tagSearch } from "../tags.js";
import { attemptsBar, timeline } from "../timeline.js";
import { ENDED, number, plain, STATES, until, withoutBraces } from "../words.js";
import { actions } from "./actions.js";
import { waitpoint } from "./waitpoint.js";

const FORKED_FROM = "flowfabric.forked_from";
const EVERY_MS = 5000;

export function execution(main, { id: given, signal }) {
  const id = withoutBraces(given); // an address may have the form of the store
  const pane = h("div", { class: "output", "data-keep": true, tabindex: "0", role: "log", "aria-label": "Output" });
  const readOutput = output(pane, id, signal);
  const said = tabs([["Output", [pane, h("p", { class: "hint muted" }, "The output of the handler appears here live.")]], ["Logs", logs(id, signal)]]);
  let following = null;
  readOutput();
  const look = live(async () => {
    try {
      const found = await read(id, signal);
      draw(main, id, found, said, look);
      if (ENDED.has(found.info.public_state)) {
        following = null;
        return;
      }
      following ??= follow(executionPath(id, "/events"), look, signal);
      readOutput();
    } catch (error) {
      if (!signal.aborted) show(main, heading("Execution"), problem(error), h("p", {}, h("a", { href: "#/executions" }, "All executions")));
      throw error;
    }
  }, EVERY_MS, signal);
}

async function read(id, signal) {
  const ask = (path, query) => get(executionPath(id, path), query, signal);
  const [info, snapshot, why, context, attempts, history, steps] = await Promise.all([
    ask("/info"), ask(""), ask("/why"), ask("/context"), ask("/attempts"), ask("/history", { limit: 1000 }), ask("/steps"),
  ]);
  const isSuspended = info.public_state === "suspended";
  const [result, open] = await Promise.all([
    info.public_state === "completed" ? orNothing(ask("/result")) : null,
    isSuspended ? orNothing(ask("/questions")) : null,
  ]);
  return { info, snapshot, why, context, attempts, events: history.events, steps: steps.steps.filter((each) => !each.name.startsWith("ff:")), result, questions: open?.questions ?? [] };
}

// What was there a moment ago may be gone.
const orNothing = (reading) => reading.catch((error) => {
  if (error instanceof Problem) return null;
  throw error;
});

function draw(main, id, found, said, look) {
  const { info, snapshot, why, questions } = found;
  show(
    main,
    heading(info.execution_kind, badge(info.public_state), actions(id, found, look)),
    h("p", { class: "id mono" }, id, " ", button("Copy", () => navigator.clipboard.writeText(id), "quiet small")),
    h("p", { class: "why" }, `It ${why.sentence || STATES[info.public_state]}.`),
    snapshot.progress_pct != null && progress(snapshot),
    questions.length > 0 && card("It waits for", questions.map((each) => waitpoint(each, { ...found.info, reason: snapshot.blocking_reason }, look))),
    details(found),
    h("div", { class: "two" }, card("Timeline", attemptsBar(found), timeline(found)), card(null, said)),
    h("div", { class: "two" }, card("Input", payload(found.context.input_payload, found.context.payload_encoding)), resultCard(found)),
    stepsCard(found.steps),
  );
}

function progress({ progress_pct: done, progress_message: message }) {
  return h("p", { class: "progress" }, h("progress", { max: 100, value: done, "aria-label": "Progress" }), ` ${done}% ${message ?? ""}`);
}

function details({ info, snapshot }) {
  const lease = snapshot.current_lease;
  const tags = Object.entries(snapshot.tags).map(([key, value]) =>
    h("a", { class: "tag", href: `#/executions?search=${encodeURIComponent(tagSearch(key, value))}` }, `${key}=${value}`));
  return card(null, facts([
    ["Lane", h("a", { href: `#/executions?lane=${encodeURIComponent(info.lane_id)}` }, info.lane_id)],
    ["Namespace", info.namespace],
    ["Priority", number(info.priority)],
    ["Created", when(info.created_at)],
    ["Started", info.started_at && when(info.started_at)],
    ["Ended", info.completed_at && when(info.completed_at)],
    ["Attempts", number(snapshot.total_attempt_count)],
    ["Worker", lease && lease.worker_instance_id],
    ["Lease", lease && `ends ${until(lease.expires_at)}, epoch ${lease.lease_epoch}`],
    ["Starts", snapshot.delay_until && until(snapshot.delay_until)],
    ["Concurrency key", info.concurrency_key],
    ["Flow", info.flow_id && flowLink(info.flow_id)],
    ["Forked from", snapshot.tags[FORKED_FROM] && executionLink(snapshot.tags[FORKED_FROM])],
    ["Tags", tags.length ? tags : null],
    ["Blocked", snapshot.blocking_detail],
  ]));
}

function resultCard({ info, snapshot, result }) {
  if (result) return card("Result", payload(result.payload, result.encoding));
  const failure = snapshot.failure_reason && h("p", { class: "problem" }, `${plain(snapshot.failure_category ?? "failure")}: ${snapshot.failure_reason}`);
  const none = ENDED.has(info.public_state) ? "The execution has no result." : "There is no result before the execution completes.";
  return card("Result", failure, h("p", { class: "muted" }, none));
}

function stepsCard(steps) {
  if (!steps.length) return card("Steps", empty("Steps of the handler are recorded here and run only once:", "draft = await ctx.step(\"draft\", write, topic)"));
  const step = (each) => h("li", { "data-key": `${each.name}#${each.occurrence}` }, h("details", {},
    h("summary", {}, each.name, each.occurrence > 0 && h("span", { class: "muted" }, ` #${each.occurrence + 1}`)), payload(each.payload, each.encoding)));
  return card("Steps", h("ol", { class: "steps" }, steps.map(step)));
}
