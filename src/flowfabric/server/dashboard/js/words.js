// Numbers, times and states in words.

export const STATES = {
  waiting: "may start as soon as a worker is free",
  delayed: "starts at a later time",
  rate_limited: "waits for a budget or a quota",
  waiting_children: "waits for other executions",
  active: "is running",
  suspended: "waits for a signal",
  resumable: "may go on as soon as a worker is free",
  completed: "has completed",
  failed: "has failed",
  cancelled: "was cancelled",
  expired: "took too long",
  skipped: "was skipped",
};
export const ENDED = new Set(["completed", "failed", "cancelled", "expired", "skipped"]);
export const FAILED = ["failed", "expired"];
export const RETRYABLE = new Set(["failed", "expired", "cancelled"]);

export const plain = (word) => word.replaceAll("_", " ");
export const withoutBraces = (id) => id.replace(/^\{[a-z]+:(\d+)\}:/, "$1-"); // the form for people
export const short = (id) => id.slice(-8); // ids of one moment begin alike
export const number = (value) => value.toLocaleString("en");
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
export const moment = (ms) => new Date(ms).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });

export function span(ms) {
  if (ms == null) return "–";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 48 * 3_600_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} days`;
}

export function ago(ms) {
  const since = Date.now() - ms;
  return since < 1000 ? "just now" : `${span(since)} ago`;
}

export function until(ms) {
  const left = ms - Date.now();
  return left > 0 ? `in ${span(left)}` : `${span(-left)} ago`;
}

export function compact(value) {
  if (value < 10_000) return number(Math.round(value * 10) / 10);
  return Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
}
