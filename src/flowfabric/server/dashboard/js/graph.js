// The graph of a flow: members in layers from left to right, coloured by their states; to be zoomed and moved.

import { h, show, svg } from "./dom.js";
import { button } from "./parts.js";
import { plain, short } from "./words.js";

const NODE = { width: 150, height: 44 };
const GAP = { x: 60, y: 16 };
const READABLE = 0.55; // how small the graph is shown unless all of it is asked for
const TURNS = 4; // how often layers are sorted by their neighbours

export function graphPane() {
  const view = { x: 0, y: 0, width: 800, height: 300, isTouched: false };
  const canvas = svg("svg", { class: "graph", role: "group", "aria-label": "Graph of the flow" });
  const pane = { view, canvas, size: { width: 800, height: 300 } };
  const zoom = (factor) => {
    scale(view, factor, view.x + view.width / 2, view.y + view.height / 2);
    apply(pane);
  };
  const fit = () => {
    place(pane, 0);
    view.isTouched = true;
  };
  pane.element = h(
    "div",
    { class: "graph-pane", "data-keep": true },
    canvas,
    h("div", { class: "zoom" }, label(button("+", () => zoom(0.8), "quiet"), "Zoom in"), label(button("−", () => zoom(1.25), "quiet"), "Zoom out"), button("Fit", fit, "quiet")),
  );
  canvas.addEventListener("wheel", (event) => wheel(pane, event), { passive: false });
  canvas.addEventListener("pointerdown", (event) => drag(pane, event));
  return pane;
}

function label(element, text) {
  element.setAttribute("aria-label", text);
  return element;
}

export function drawGraph(pane, members, edges) {
  const places = layout(members, edges);
  const nodes = members.map((each) => node(each, places.get(each.execution_id)));
  const lines = edges.map((each) => edge(each, places)).filter(Boolean);
  show(pane.canvas, svg("g", { class: "edges", "data-key": "edges" }, lines), svg("g", { class: "nodes", "data-key": "nodes" }, nodes));
  const spots = [...places.values()];
  pane.size = {
    width: Math.max(...spots.map(({ x }) => x), 0) + NODE.width,
    height: Math.max(...spots.map(({ y }) => y), 0) + NODE.height,
  };
  if (!pane.view.isTouched) place(pane, READABLE);
}

// The layer of a member is one behind the last of those it depends on.
function layout(members, edges) {
  const upstream = new Map(members.map((each) => [each.execution_id, []]));
  for (const each of edges) upstream.get(each.downstream_execution_id)?.push(each.upstream_execution_id);
  const depths = new Map();
  const depth = (id) => {
    if (!depths.has(id)) {
      depths.set(id, 0); // a member that is not drawn, or a circle, ends the walk
      depths.set(id, Math.max(-1, ...upstream.get(id).filter((each) => upstream.has(each)).map(depth)) + 1);
    }
    return depths.get(id);
  };
  const layers = [];
  for (const { execution_id: id } of members) (layers[depth(id)] ??= []).push(id);
  return spread(sorted(layers, upstream));
}

// Fewer lines cross when each stands near the middle of those it depends on.
function sorted(layers, upstream) {
  for (let turn = 0; turn < TURNS; turn += 1) {
    const rank = new Map(layers.flatMap((layer) => layer.map((id, index) => [id, index / layer.length])));
    const middle = (id) => {
      const ranks = upstream.get(id).map((each) => rank.get(each)).filter((each) => each !== undefined);
      return ranks.length ? ranks.reduce((sum, each) => sum + each, 0) / ranks.length : rank.get(id);
    };
    layers = layers.map((layer) => [...layer].sort((one, other) => middle(one) - middle(other)));
  }
  return layers;
}

function spread(layers) {
  const tallest = Math.max(1, ...layers.map((layer) => layer.length));
  const places = new Map();
  layers.forEach((layer, column) => layer.forEach((id, row) => {
    const y = (row + (tallest - layer.length) / 2) * (NODE.height + GAP.y);
    places.set(id, { x: column * (NODE.width + GAP.x), y });
  }));
  return places;
}

function node({ execution_id: id, execution_kind: kind, public_state: state, child_flow_id: child }, { x, y }) {
  const href = child ? `#/flows/${encodeURIComponent(child)}` : `#/executions/${encodeURIComponent(id)}`;
  return svg(
    "a",
    { href, class: `node ${state}`, "data-key": id, transform: `translate(${x} ${y})`, "aria-label": `${kind}, ${plain(state)}` },
    svg("rect", { width: NODE.width, height: NODE.height, rx: 8 }),
    svg("rect", { class: "mark", width: 5, height: NODE.height - 16, x: 8, y: 8, rx: 2.5 }),
    svg("text", { x: 22, y: 19, class: "kind" }, kind.length > 17 ? `${kind.slice(0, 16)}…` : kind),
    svg("text", { x: 22, y: 34, class: "detail" }, state.length > 10 ? plain(state) : `${plain(state)} · ${short(id)}`),
  );
}

function edge({ edge_id: id, upstream_execution_id: from, downstream_execution_id: to, edge_state: state }, places) {
  const [one, other] = [places.get(from), places.get(to)];
  if (!one || !other) return null;
  const [x1, y1, x2, y2] = [one.x + NODE.width, one.y + NODE.height / 2, other.x, other.y + NODE.height / 2];
  const bend = (x1 + x2) / 2;
  return svg("path", { "data-key": id, class: `edge ${state}`, d: `M${x1} ${y1} C${bend} ${y1} ${bend} ${y2} ${x2} ${y2}` });
}

function place({ view, size, canvas }, smallest) {
  const margin = 16;
  const whole = Math.max(480, size.width + 2 * margin);
  const width = Math.min(whole, smallest ? (canvas.clientWidth || whole) / smallest : whole);
  Object.assign(view, { x: -margin, y: -margin, width, height: size.height + 2 * margin });
  canvas.style.aspectRatio = `${view.width} / ${view.height}`;
  apply({ view, canvas });
}

function apply({ view, canvas }) {
  canvas.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
}

function scale(view, factor, x, y) {
  view.isTouched = true;
  view.x = x - (x - view.x) * factor;
  view.y = y - (y - view.y) * factor;
  view.width *= factor;
  view.height *= factor;
}

// A wheel alone scrolls the page; with Ctrl, which browsers also report for a pinch, it zooms.
function wheel(pane, event) {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  const spot = new DOMPoint(event.clientX, event.clientY).matrixTransform(pane.canvas.getScreenCTM().inverse());
  scale(pane.view, event.deltaY > 0 ? 1.15 : 0.87, spot.x, spot.y);
  apply(pane);
}

function drag(pane, event) {
  if (event.target.closest("a")) return;
  const ratio = 1 / pane.canvas.getScreenCTM().a;
  const start = { x: event.clientX, y: event.clientY, left: pane.view.x, top: pane.view.y };
  const move = (now) => {
    pane.view.isTouched = true;
    pane.view.x = start.left - (now.clientX - start.x) * ratio;
    pane.view.y = start.top - (now.clientY - start.y) * ratio;
    apply(pane);
  };
  pane.canvas.setPointerCapture(event.pointerId);
  pane.canvas.addEventListener("pointermove", move);
  pane.canvas.addEventListener("pointerup", () => pane.canvas.removeEventListener("pointermove", move), { once: true });
}
