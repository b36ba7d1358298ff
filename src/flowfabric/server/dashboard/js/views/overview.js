// How it all stands, and how it stood a moment ago.

import { get } from "../api.js";
import { chart, rates } from "../charts.js";
import { h, show } from "../dom.js";
import { live } from "../live.js";
import { card, bar, empty, heading, problem, table } from "../parts.js";
import { ENDED, FAILED, compact, number, plural, span, STATES } from "../words.js";
import { budgetBars } from "./budgets.js";

const EVERY_MS = 2000;
const KEPT_MS = 5 * 60_000;
let samples = []; // stay while other views are looked at

export function overview(main, { signal }) {
  live(async () => {
    try {
      const since = samples.at(-1)?.at_ms ?? 0;
      const found = await get("/overview", { since_ms: since }, signal);
      samples = [...samples, ...found.samples].filter((each) => found.samples.length === 0 || isRecent(each, found));
      draw(main, found);
    } catch (error) {
      if (!signal.aborted) show(main, heading("Overview"), problem(error));
      throw error;
    }
  }, EVERY_MS, signal);
}

const isRecent = (sample, { samples: [latest] }) => sample.at_ms > latest.at_ms - KEPT_MS;
const count = (sample, states) => states.reduce((sum, state) => sum + (sample.counts[state] ?? 0), 0);
const queued = ["waiting", "resumable"];

function draw(main, { lanes, workers, budgets }) {
  const latest = samples.at(-1);
  const total = count(latest, Object.keys(STATES));
  if (total === 0 && workers.length === 0) {
    show(main, heading("Overview"), welcome());
    return;
  }
  show(
    main,
    heading("Overview", h("span", { class: "muted" }, plural(total, "execution"))),
    h("div", { class: "charts" }, charts(latest)),
    states(latest, total),
    lanesCard(lanes),
    h("div", { class: "two" }, workersCard(workers, latest), budgetsCard(budgets)),
  );
}

function charts(latest) {
  const ended = rates(samples, (each) => count(each, [...ENDED]));
  const failures = rates(samples, (each) => count(each, FAILED)).map(([at, rate]) => [at, rate * 60]);
  const depth = samples.map((each) => [each.at_ms, count(each, queued)]);
  const age = samples.map((each) => [each.at_ms, each.oldest_waiting_ms ?? 0]);
  const lately = (points) => points.slice(-3).reduce((sum, [, value]) => sum + value, 0) / Math.min(3, points.length || 1);
  return [
    chart({ title: "Throughput", kind: "good", points: ended, format: perSecond, now: perSecond(lately(ended)) }),
    chart({ title: "Waiting", points: depth, format: compact, now: compact(count(latest, queued)) }),
    chart({ title: "Oldest waiting", kind: "slow", points: age, format: span, now: span(latest.oldest_waiting_ms) }),
    chart({ title: "Failures", kind: "bad", points: failures, format: perMinute, now: perMinute(lately(failures)) }),
  ];
}

const perSecond = (rate) => `${compact(rate)}/s`;
const perMinute = (rate) => `${compact(rate)}/min`;

function states(latest, total) {
  const found = Object.keys(STATES).filter((state) => latest.counts[state]);
  const link = (state) =>
    h("li", {}, h("a", { href: `#/executions?state=${state}`, class: `tile ${state}` },
      h("strong", {}, number(latest.counts[state])), h("span", {}, state.replaceAll("_", " "))));
  const parts = found.map((state) => [state, latest.counts[state]]);
  return card("States", bar(parts, Math.max(1, total), "executions by state"), h("ul", { class: "tiles" }, found.map(link)));
}

function lanesCard(lanes) {
  const rows = lanes.map(({ lane_id: lane, counts, oldest_waiting_ms: oldest }) => {
    const sum = Object.values(counts).reduce((one, other) => one + other, 0);
    const open = ["waiting", "active", "suspended", "failed"].map((state) => number(counts[state] ?? 0));
    const name = h("a", { href: `#/executions?lane=${encodeURIComponent(lane)}` }, lane);
    return { key: lane, cells: [name, ...open, span(oldest), bar(Object.entries(counts), sum || 1, `${lane} by state`)] };
  });
  const columns = ["Lane", "Waiting", "Running", "Suspended", "Failed", "Oldest", "All"];
  return card("Lanes", rows.length ? table("Lanes", columns, rows) : empty("No lane has executions yet."));
}

function workersCard(workers, latest) {
  const slots = workers.reduce((sum, each) => sum + each.slots, 0);
  const running = count(latest, ["active"]);
  const text = workers.length
    ? `${plural(workers.length, "worker")} with ${plural(slots, "slot")}; ${plural(running, "execution")} running.`
    : "No worker is alive, so nothing starts.";
  return card(
    h("a", { href: "#/workers" }, "Workers"),
    h("p", {}, text),
    slots > 0 && bar([["active", running]], Math.max(slots, running), `${running} of ${slots} slots are taken`),
    !workers.length && empty("Start one beside this server:", "flowfabric worker my.module"),
  );
}

function budgetsCard(budgets) {
  return card(
    h("a", { href: "#/budgets" }, "Budgets"),
    budgets.length ? budgets.slice(0, 6).map(budgetBars) : h("p", { class: "muted" }, "There are no budgets."),
  );
}

function welcome() {
  return card(
    "Nothing has happened here yet",
    empty("Write a task, for example in tasks.py:", TASK),
    empty("Run its worker beside this server and submit the task:", RUN),
  );
}

const TASK = `from flowfabric import Worker

worker = Worker()

@worker.task
async def greet(name: str) -> str:
    return f"hello {name}"`;

const RUN = `flowfabric worker tasks
flowfabric submit greet '"ada"' --wait`;
