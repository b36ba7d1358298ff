// Payloads are bytes, which JSON carries as base64.

import { h } from "./dom.js";
import { number } from "./words.js";

const MOST = 100_000; // characters that are shown

export function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

export function textOf(base64) {
  return new TextDecoder().decode(bytesOf(base64));
}

export function base64Of(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

// A payload in readable form: indented JSON, plain text, or the number of bytes.
export function readable(base64, encoding) {
  const bytes = bytesOf(base64);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    try {
      return JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      return text;
    }
  } catch {
    return `${number(bytes.length)} bytes${encoding ? ` of ${encoding}` : ""}`;
  }
}

export function payload(base64, encoding) {
  const text = readable(base64, encoding);
  const shown = text.length > MOST ? `${text.slice(0, MOST)}\n… ${number(text.length - MOST)} more` : text;
  return h("pre", { class: "payload", tabindex: "0" }, shown || "(empty)");
}
