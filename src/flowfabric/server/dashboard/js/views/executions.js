// All executions: filter, search, page by page, and cancel, retry or replay many.

import { all, executionPath, get, post } from "../api.js";
import { ask, tell } from "../dialogs.js";
import { h, show } from "../dom.js";
import { live } from "../live.js";
import { badge, button, card, empty, executionLink, heading, problem, table, when } from "../parts.js";
import { tagsOf } from "../tags.js";
import { ENDED, number, plural, RETRYABLE, STATES } from "../words.js";

const EVERY_MS = 2000;
const PAGE = 100;
const LOOKS = 20; // pages of the API that are looked through for one page of matches
const AT_ONCE = 6;
const MOST = 10_000; // executions that one bulk action takes
const ID = /^(\d+-|\{[a-z]+:\d+\}:)[0-9a-f-]{36}$/i;

export function executions(main, { query, signal }) {
  const state = { main, query, signal, selected: new Set(), everything: false, cursors: [null], lanes: [], rows: [] };
  const filter = filterOf(query);

  state.look = live(async () => {
    try {
      const page = await matches(filter, state.cursors.at(-1), signal);
      const workers = page.rows.some((row) => row.public_state === "waiting") ? await liveWorkers(signal) : [];
      Object.assign(state, { rows: page.rows, next: page.next, error: null, workers });
    } catch (error) {
      if (signal.aborted) return;
      state.error = error;
    }
    draw(state);
    if (state.error) throw state.error;
  }, EVERY_MS, signal);
  all("/lanes", { limit: 1000 }, "lanes", 1000, signal).then((lanes) => {
    state.lanes = lanes;
    draw(state);
  }).catch(() => {}); // without the right to list lanes the filter has none
}

// What is searched for are tags when it has `=` or is a JSON object, else a kind; an id leads to its execution.
function filterOf(query) {
  const search = query.get("search") ?? "";
  const tags = tagsOf(search);
  return {
    public_state: query.get("state"),
    lane_id: query.get("lane"),
    namespace: query.get("namespace"),
    execution_kind: tags ? null : search.trim(),
    tags: tags && JSON.stringify(tags),
    limit: PAGE,
  };
}

// Without the right to list workers the list is empty.
const liveWorkers = (signal) => all("/workers", { limit: 1000 }, "workers", 1000, signal).catch(() => []);

// Workers serve its lane, and none of them has its task.
function isUnknown(row, workers) {
  const ofLane = workers.filter((each) => each.lanes.includes(row.lane_id));
  return row.public_state === "waiting" && ofLane.length > 0
    && !ofLane.some((each) => !each.tasks.length || each.tasks.includes(row.execution_kind));
}

// One note for each task that is missing, above the list.
function missingTasks({ rows, workers = [] }) {
  const says = rows.filter((row) => isUnknown(row, workers)).map(({ execution_kind: kind, lane_id: lane }) => {
    const known = new Set(workers.filter((each) => each.lanes.includes(lane)).flatMap((each) => each.tasks));
    return `No live worker has the task ${kind}; workers of lane ${lane} know: ${[...known].sort().join(", ")}.`;
  });
  return [...new Set(says)].map((text) => h("p", { class: "problem", "data-key": text }, text));
}

// A page of the API may be short: it looks at so many executions and no more.
async function matches(filter, cursor, signal) {
  const rows = [];
  for (let looks = 0; looks < LOOKS && rows.length < PAGE; looks += 1) {
    const page = await get("/executions", { ...filter, limit: PAGE - rows.length, cursor }, signal);
    rows.push(...page.executions);
    cursor = page.next_cursor;
    if (!cursor) break;
  }
  return { rows, next: cursor };
}

function draw(state) {
  const { main, query, rows, error } = state;
  if (state.signal.aborted) return;
  const isFiltered = [...query.values()].some(Boolean);
  const nothing = isFiltered
    ? empty(state.next ? "No match so far; there are more executions to search." : "No execution matches.")
    : empty("There are no executions yet. Submit a task that a worker runs:", `flowfabric submit greet '"ada"'`);
  show(
    main,
    heading("Executions"),
    filters(state),
    error && problem(error),
    missingTasks(state),
    card(null, bulk(state), rows.length ? list(state) : nothing, paging(state)),
  );
}

function filters({ query, lanes }) {
  const set = (name, value) => {
    const next = new URLSearchParams(query);
    value ? next.set(name, value) : next.delete(name);
    location.hash = `#/executions?${next}`;
  };
  const search = (event) => {
    event.preventDefault();
    const text = event.target.elements.search.value.trim();
    if (ID.test(text)) location.hash = `#/executions/${encodeURIComponent(text)}`;
    else set("search", text);
  };
  return h(
    "form",
    { class: "filters", role: "search", onsubmit: search },
    h("input", { type: "search", name: "search", "aria-label": "Search by id, kind or tag", placeholder: "Id, kind, or tag=value", value: query.get("search") }),
    select("State", query.get("state"), Object.keys(STATES), (value) => set("state", value)),
    select("Lane", query.get("lane"), withChosen(lanes, query.get("lane")), (value) => set("lane", value)),
    h("input", { type: "text", "aria-label": "Namespace", placeholder: "Namespace", value: query.get("namespace"), onchange: (event) => set("namespace", event.target.value.trim()) }),
    h("button", { type: "submit" }, "Search"),
  );
}

const withChosen = (lanes, chosen) => (!chosen || lanes.includes(chosen) ? lanes : [chosen, ...lanes]);

function select(label, chosen, options, onpick) {
  return h(
    "select",
    { "aria-label": label, onchange: (event) => onpick(event.target.value) },
    h("option", { value: "" }, `Any ${label.toLowerCase()}`),
    options.map((each) => h("option", { value: each, selected: each === chosen }, each.replaceAll("_", " "))),
  );
}

function list(state) {
  const { rows, selected } = state;
  const pick = (id, isPicked) => {
    isPicked ? selected.add(id) : selected.delete(id);
    state.everything = false;
    draw(state);
  };
  const pickAll = (event) => {
    for (const row of rows) event.target.checked ? selected.add(row.execution_id) : selected.delete(row.execution_id);
    state.everything = false;
    draw(state);
  };
  const isAll = rows.every((row) => selected.has(row.execution_id));
  const head = h("input", { type: "checkbox", "aria-label": "Select this page", checked: isAll, onchange: pickAll });
  const found = rows.map((row) => ({
    key: row.execution_id,
    cells: [
      h("input", { type: "checkbox", "aria-label": `Select ${row.execution_id}`, checked: selected.has(row.execution_id), onchange: (event) => pick(row.execution_id, event.target.checked) }),
      [badge(row.public_state), isUnknown(row, state.workers ?? []) && h("span", { class: "failure" }, " no worker")],
      row.execution_kind,
      executionLink(row.execution_id),
      row.lane_id,
      row.namespace,
      number(row.priority),
      when(row.created_at),
    ],
  }));
  return table("Executions", [head, "State", "Kind", "Execution", "Lane", "Namespace", "Priority", "Created"], found);
}

function bulk(state) {
  const count = state.everything ? "all" : state.selected.size;
  if (!count) return null;
  const choose = () => {
    state.everything = true;
    draw(state);
  };
  return h(
    "div",
    { class: "bulk", role: "group", "aria-label": "Selected executions" },
    h("strong", {}, state.everything ? "All that match are selected" : `${plural(count, "execution")} selected`),
    !state.everything && state.next && button("Select all that match", choose, "quiet"),
    button("Cancel…", () => act(state, "cancel"), "danger"),
    button("Retry…", () => act(state, "retry")),
    button("Replay…", () => act(state, "replay")),
  );
}

const ACTIONS = {
  cancel: {
    title: "Cancel these executions?",
    text: "Running attempts are asked to stop. Nothing starts again automatically.",
    fits: (row) => !ENDED.has(row.public_state),
    call: (id, { reason }) => post(executionPath(id, "/cancel"), { reason: reason || "dashboard", source: "operator_override" }),
    fields: [{ name: "reason", label: "Reason", value: "cancelled in the dashboard" }],
    done: "cancelled",
  },
  retry: {
    title: "Retry these executions?",
    text: "Each failed, expired or cancelled execution continues with a new attempt. Recorded steps are kept and do not run again.",
    fits: (row) => RETRYABLE.has(row.public_state),
    call: (id) => post(executionPath(id, "/retry"), {}),
    done: "retried",
  },
  replay: {
    title: "Replay these executions?",
    text: "Each ended execution runs again from its beginning. Recorded steps are discarded and run again.",
    fits: (row) => ENDED.has(row.public_state),
    call: (id) => post(executionPath(id, "/replay"), {}),
    done: "replayed",
  },
};

async function act(state, name) {
  const action = ACTIONS[name];
  const count = state.everything ? `up to ${number(MOST)}` : number(state.selected.size);
  const given = await ask({ ...action, text: `${count} selected. ${action.text}`, action: `${name[0].toUpperCase()}${name.slice(1)} them`, danger: name === "cancel" });
  if (!given) return;
  const ids = state.everything ? await everyMatch(state, action) : [...state.selected];
  const { done, refused, why } = await inTurns(ids, (id) => action.call(id, given));
  tell(`${number(done)} ${action.done}${refused ? `, ${number(refused)} refused: ${why}` : ""}.`, refused ? "bad" : "good");
  state.selected.clear();
  state.everything = false;
  state.look();
}

async function everyMatch(state, action) {
  const rows = await all("/executions", { ...filterOf(state.query), limit: 1000 }, "executions", MOST, state.signal);
  return rows.filter(action.fits).map((row) => row.execution_id);
}

async function inTurns(ids, call) {
  const left = [...ids];
  const found = { done: 0, refused: 0, why: "" };
  const turn = async () => {
    while (left.length) {
      try {
        await call(left.shift());
        found.done += 1;
      } catch (error) {
        found.refused += 1;
        found.why = error.message;
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, turn));
  return found;
}

function paging(state) {
  const { cursors, next } = state;
  if (cursors.length === 1 && !next) return null;
  const turn = (change) => {
    change();
    state.look.now();
  };
  return h(
    "nav",
    { class: "paging", "aria-label": "Pages" },
    h("button", { type: "button", disabled: cursors.length === 1, onclick: () => turn(() => cursors.pop()) }, "Newer"),
    h("span", {}, `Page ${cursors.length}`),
    h("button", { type: "button", disabled: !next, onclick: () => turn(() => cursors.push(next)) }, "Older"),
  );
}
