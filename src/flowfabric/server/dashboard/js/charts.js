// Line charts of a figure over the last minutes.

import { h, svg } from "./dom.js";
import { span } from "./words.js";

const WIDTH = 300;
const HEIGHT = 84;
const WINDOW_MS = 5 * 60_000;

// `points` are [ms, value], oldest first; `now` is what the figure says in words.
export function chart({ title, now, points, kind = "", format }) {
  const to = points.at(-1)?.[0] ?? 0;
  const seen = points.filter(([at]) => to - at <= WINDOW_MS);
  const from = Math.min(to - 30_000, seen[0]?.[0] ?? to);
  const most = Math.max(1e-9, ...seen.map(([, value]) => value));
  const x = (at) => ((at - from) / Math.max(1, to - from)) * WIDTH;
  const y = (value) => HEIGHT - 4 - (value / most) * (HEIGHT - 12);
  const line = seen.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
  const area = line.length ? `${x(seen[0][0]).toFixed(1)},${HEIGHT} ${line.join(" ")} ${WIDTH},${HEIGHT}` : "";
  const label = `${title}: ${now}; at most ${format(most)} in the last ${span(to - from)}`;
  return h(
    "figure",
    { class: `chart ${kind}` },
    h("figcaption", {}, h("span", {}, title), h("strong", {}, now)),
    svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      svg("line", { class: "ground", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }),
      svg("polygon", { class: "area", points: area }),
      svg("polyline", { class: "line", points: line.join(" ") }),
    ),
    h("p", { class: "axis" }, h("span", {}, `${span(to - from)} ago`), h("span", {}, `most ${format(most)}`)),
  );
}

// What grew from one sample to the next, a second.
export function rates(samples, total) {
  const found = [];
  for (let index = 1; index < samples.length; index += 1) {
    const [before, after] = [samples[index - 1], samples[index]];
    const seconds = (after.at_ms - before.at_ms) / 1000;
    found.push([after.at_ms, Math.max(0, total(after) - total(before)) / seconds]);
  }
  return found;
}
