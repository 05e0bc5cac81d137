import type { Json } from "../core/json.ts";
import type { ApiAnswer } from "./transport.ts";

/** What `gh api --include` and `glab api --include` print: a status line, headers, an empty line, the body. null: nothing of the kind. */
export function parseResponse(text: string): ApiAnswer | null {
  const end = /\r?\n\r?\n/.exec(text);
  const head = end === null ? text : text.slice(0, end.index);
  const [first = "", ...lines] = head.split(/\r?\n/);
  const status = /^HTTP\/[\d.]+ (\d{3})\b/.exec(first)?.[1];
  if (status === undefined) return null;
  const headers = lines.flatMap((line) => {
    const at = line.indexOf(":");
    return at === -1 ? [] : [[line.slice(0, at).trim().toLowerCase(), line.slice(at + 1).trim()] as const];
  });
  return parseBody(Number(status), new Map(headers), end === null ? "" : text.slice(end.index + end[0].length));
}

/** JSON that does not parse is an answer that was cut off, not one without content. */
export function parseBody(status: number, headers: ReadonlyMap<string, string>, text: string): ApiAnswer {
  if (text.trim() === "") return { kind: "answered", status, headers, body: undefined };
  // The page of a proxy. Forges have pages of their own for their own failures, which their status names better.
  if (status < 500 && /^\s*(?:<!doctype html|<html[\s>])/i.test(text))
    return { kind: "lost", reason: pageReason(status, text) };
  if (!/\bjson\b/i.test(headers.get("content-type") ?? "")) return { kind: "answered", status, headers, body: text };
  try {
    const body: Json = JSON.parse(text);
    return { kind: "answered", status, headers, body };
  } catch {
    return { kind: "lost", reason: "the answer was cut off", why: "connection" };
  }
}

function pageReason(status: number, text: string): string {
  const title = /<title[^>]*>([^<]{1,100})</i.exec(text)?.[1]?.trim() ?? "";
  const page = title === "" ? "" : `, titled "${title}"`;
  return `an HTML page came instead of the forge's answer (status ${status}${page}). A proxy or a captive portal is in between: sign in to the network, or correct HTTPS_PROXY and NO_PROXY`;
}
