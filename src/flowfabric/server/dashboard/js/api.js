// The public API, and its streams of events. Streams are read by fetch, because EventSource cannot send a token.

import { askForToken, token } from "./token.js";

const BASE = new URL("v1", new URL(".", document.baseURI));
const AGAIN_MS = 1000;

export class Problem extends Error {
  constructor(status, said) {
    super(said.message || `The server answered ${status}.`);
    this.status = status;
    this.code = said.code ?? "";
    this.details = said.details ?? {};
  }
}

export const get = (path, query, signal) => call("GET", path, { query, signal });
export const post = (path, body) => call("POST", path, { body });
export const executionPath = (id, rest = "") => `/executions/${encodeURIComponent(id)}${rest}`;
export const flowPath = (id, rest = "") => `/flows/${encodeURIComponent(id)}${rest}`;

async function call(method, path, { query, body, signal }) {
  const response = await request(method, path, { query, body, signal });
  return response.json();
}

async function request(method, path, { query, body, signal, headers = {} }) {
  for (;;) {
    const used = token();
    const response = await fetch(address(path, query), {
      method,
      signal,
      headers: {
        ...headers,
        ...(used ? { Authorization: `Bearer ${used}` } : {}),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (response.ok) return response;
    const problem = new Problem(response.status, await response.json().catch(() => ({})));
    const isStale = used !== token(); // the user entered another token
    if (response.status !== 401 || !(isStale || (await askForToken(problem.message)))) throw problem;
  }
}

function address(path, query = {}) {
  const url = new URL(BASE + path);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

// Call `on(kind, data)` for each event until the stream says `end`, reconnecting behind the last one seen.
// Answers the place of that one.
export async function follow(path, on, signal, query = {}) {
  let last = null;
  while (!signal.aborted) {
    try {
      const headers = { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) };
      const response = await request("GET", path, { query, signal, headers });
      for await (const event of events(response.body)) {
        last = event.id || last;
        on(event.kind, event.data ? JSON.parse(event.data) : null);
        if (event.kind === "end") return last;
      }
    } catch (error) {
      if (signal.aborted || (error instanceof Problem && error.status < 500)) return last;
    }
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
  return last;
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const event = { id: "", kind: "message", data: "" };
      for (const line of block.split("\n")) {
        if (line.startsWith("id: ")) event.id = line.slice(4);
        else if (line.startsWith("event: ")) event.kind = line.slice(7);
        else if (line.startsWith("data: ")) event.data += line.slice(6);
      }
      if (event.data) yield event;
    }
  }
}

// All pages of a list, as far as `most` items.
export async function all(path, query, items, most, signal) {
  const found = [];
  let cursor = null;
  do {
    const page = await get(path, { ...query, cursor }, signal);
    found.push(...page[items]);
    cursor = page.next_cursor;
  } while (cursor && found.length < most);
  return found.slice(0, most);
}
