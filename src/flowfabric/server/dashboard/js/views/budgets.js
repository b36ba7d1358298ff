// Budgets as bars: what was used, what is reserved, and where the limits are.

import { get, post } from "../api.js";
import { ask, doing } from "../dialogs.js";
import { h, show } from "../dom.js";
import { live } from "../live.js";
import { badge, bar, button, card, empty, heading, problem } from "../parts.js";
import { compact, number, plain, short, span, until } from "../words.js";

const EVERY_MS = 2000;
const PAGE = 50;
const path = (id, rest = "") => `/budgets/${encodeURIComponent(id)}${rest}`;

export function budgets(main, { signal }) {
  const look = live(async () => {
    try {
      const ids = await get("/budgets", { limit: PAGE }, signal);
      draw(main, await Promise.all(ids.map((id) => get(path(id), {}, signal))), look);
    } catch (error) {
      if (!signal.aborted) show(main, heading("Budgets"), problem(error));
      throw error;
    }
  }, EVERY_MS, signal);
}

function draw(main, found, look) {
  const nothing = card(null, empty("There are no budgets. Create one and let tasks spend from it:", "flowfabric budget create --lane agents --limit tokens=100000"));
  show(main, heading("Budgets"), found.length ? h("ul", { class: "budgets plain" }, found.map((each) => entry(each, look))) : nothing);
}

function entry(budget, look) {
  const notes = [
    budget.budget_id,
    budget.reset_interval_ms && `resets every ${span(budget.reset_interval_ms)}${budget.next_reset_at ? `, ${until(budget.next_reset_at)}` : ""}`,
    budget.breach_count > 0 && `passed ${number(budget.breach_count)} times`,
    `at the limit: ${plain(budget.on_hard_limit)}`,
  ];
  return h(
    "li",
    { class: "card", "data-key": budget.budget_id },
    h("p", { class: "muted" }, notes.filter(Boolean).join(" · ")),
    budgetBars(budget),
    h("div", { class: "actions" }, button("Raise…", () => raise(budget, look)), button("Reset…", () => reset(budget, look), "danger")),
  );
}

// For whom it is; one without a scope is for those that were submitted with it.
const scope = ({ scope_type: type, scope_id: id, budget_id: own, name }) => (type ? `${plain(type)} ${id}` : name ? "" : `budget ${short(own)}`);
// Its name, if it has one, and for whom it is.
const title = (budget) => [budget.name, scope(budget)].filter(Boolean).join(" · ");

export function budgetBars(budget) {
  const names = Object.keys({ ...budget.hard_limits, ...budget.soft_limits, ...budget.usage });
  return h(
    "div",
    { class: "budget", "data-key": budget.budget_id },
    h("p", {}, h("strong", { title: budget.budget_id }, title(budget)), " ", budget.breached_at != null && badge("breached")),
    names.map((name) => dimension(budget, name)),
  );
}

function dimension(budget, name) {
  const used = budget.usage[name] ?? 0;
  const reserved = budget.reserved[name] ?? 0;
  const limit = budget.hard_limits[name] || budget.soft_limits[name] || 0;
  const share = limit ? used / limit : 0;
  const kind = share >= 1 ? "failed" : share >= 0.8 ? "suspended" : "completed";
  const said = `${compact(used)}${limit ? ` of ${compact(limit)}` : ""}${reserved ? `, ${compact(reserved)} reserved` : ""}`;
  return h("div", { class: "dimension", "data-key": name },
    h("span", {}, plain(name)),
    bar([[kind, used], ["reserved", reserved]], Math.max(limit, used + reserved, 1), `${name}: ${said}`),
    h("span", { class: "figure" }, said));
}

async function raise(budget, look) {
  const names = Object.keys(budget.hard_limits);
  const given = await ask({
    title: "Set the hard limits",
    text: "A higher limit ends a breach; 0 removes the limit.",
    fields: names.map((name) => ({ name, label: plain(name), type: "number", value: budget.hard_limits[name], required: true })),
    action: "Set them",
  });
  if (!given) return;
  const hard = names.map((name) => Number(given[name]));
  const soft = names.map((name, index) => (hard[index] ? Math.min(budget.soft_limits[name] ?? 0, hard[index]) : budget.soft_limits[name] ?? 0));
  const body = { dimensions: names, hard_limits: hard, soft_limits: soft };
  if (await doing(() => post(path(budget.budget_id, "/limits"), body), "The limits are set.")) look();
}

async function reset(budget, look) {
  const given = await ask({ title: "Start a new period?", text: "The usage is reset to zero, and a breach ends.", action: "Reset it", danger: true });
  if (given && (await doing(() => post(path(budget.budget_id, "/reset"), {}), "A new period has begun."))) look();
}
