// Refresh the data gently, and only in a visible tab.

const SLOWEST_MS = 30_000;
const NUDGE_MS = 150;
const REST_MS = 600; // between two looks, however many nudges there are

// Call `look` now and every `everyMs` after it has ended, until `signal` aborts. Answers `nudge`: look soon. Many nudges
// are one look; `nudge.now` does not wait.
export function live(look, everyMs, signal) {
  let timer = null;
  let running = false;
  let again = false;
  let isNudged = false;
  let endedAt = 0;
  let failures = 0;

  async function run() {
    if (signal.aborted || document.hidden) return;
    if (running) {
      again = true;
      return;
    }
    running = true;
    isNudged = false;
    try {
      await look();
      failures = 0;
    } catch (error) {
      if (!signal.aborted) failures += 1;
    }
    running = false;
    endedAt = performance.now();
    schedule(again ? REST_MS : Math.min(SLOWEST_MS, everyMs * 2 ** failures));
    again = false;
  }

  function schedule(ms) {
    clearTimeout(timer);
    if (!signal.aborted) timer = setTimeout(run, ms);
  }

  document.addEventListener("visibilitychange", run, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  run();
  const nudge = () => {
    if (running) again = true;
    else if (!isNudged) {
      isNudged = true;
      schedule(Math.max(NUDGE_MS, REST_MS - (performance.now() - endedAt)));
    }
  };
  nudge.now = run; // the user waits for it
  return nudge;
}
