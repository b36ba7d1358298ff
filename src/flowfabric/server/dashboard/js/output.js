// What an execution emits, as it comes: the frames of each attempt in turn.

import { executionPath, get, Problem } from "./api.js";
import { h } from "./dom.js";
import { readable, textOf } from "./payload.js";

const BLOCK_MS = 10_000;
const AGAIN_MS = 2000;
const MOST = 5000; // pieces that are kept on the page

export async function output(pane, id, signal) {
  for (let attempt = 0, after = "0-0"; !signal.aborted; ) {
    try {
      const query = { after, block_ms: BLOCK_MS, count_limit: 500 };
      const page = await get(executionPath(id, `/streams/${attempt}/tail`), query, signal);
      page.frames.forEach((frame) => append(pane, frame));
      after = page.cursor;
      if (page.closed_at == null || page.more) continue;
      [attempt, after] = [await next(id, attempt, signal), "0-0"];
      if (pane.hasChildNodes()) pane.append(h("p", { class: "attempt" }, `attempt ${attempt}`));
    } catch (error) {
      if (signal.aborted) return;
      await pause(error instanceof Problem ? AGAIN_MS : 2 * AGAIN_MS, signal);
    }
  }
}

// The attempt after this one, as soon as there is one: after a retry, a reclaim or a replay.
async function next(id, attempt, signal) {
  for (;;) {
    const info = await get(executionPath(id, "/info"), {}, signal);
    if ((info.current_attempt_index ?? 0) > attempt) return attempt + 1;
    await pause(AGAIN_MS, signal);
  }
}

function append(pane, frame) {
  const isAtEnd = pane.scrollTop + pane.clientHeight >= pane.scrollHeight - 8;
  const isPlain = frame.encoding == null || frame.encoding === "utf8";
  const text = isPlain ? textOf(frame.payload) : `${readable(frame.payload, frame.encoding)}\n`;
  pane.append(h("span", { class: isPlain ? "" : "value", title: frame.frame_type }, text));
  while (pane.childNodes.length > MOST) pane.firstChild.remove();
  if (isAtEnd) pane.scrollTop = pane.scrollHeight;
}

const pause = (ms, signal) => new Promise((done, stop) => {
  const timer = setTimeout(done, ms);
  signal.addEventListener("abort", () => (clearTimeout(timer), stop(signal.reason)), { once: true });
});
