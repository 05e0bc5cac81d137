import type { Digest } from "../json.ts";
import { pureSha256 } from "../sha256.ts";
import type { Failing, Metrics } from "./metrics.ts";

/**
 * The same for the same failure, however long it took and wherever it ran: how the command ended, what fails and how much, and the lines that tell of it, in
 * whatever order they came, without times, addresses, places in files and paths of temporary files. Other numbers stay: 12 problems and then 10
 * are not the same failure, and a loop that gets on must not be taken for one that does not.
 */
export function signatureOf(params: {
  readonly kind: string;
  readonly code: number | null;
  readonly metrics: Metrics;
  readonly lines: readonly string[];
}): Digest {
  const { kind, code, metrics } = params;
  const lines = params.lines.map(timeless).filter((line) => line !== "");
  const telling = [...new Set(lines.filter((line) => TELLING.test(line)))].toSorted().slice(0, MOST_LINES);
  const said = telling.length > 0 ? telling : lines.slice(-MOST_LINES);
  const { failing, tests, errors } = metrics;
  return pureSha256(JSON.stringify([kind, code, failing.names, failing.more, tests?.failed ?? null, errors, said]));
}

/** null: no names are known. */
export function failingDigest({ names, more }: Failing): Digest | null {
  return names.length === 0 ? null : pureSha256(JSON.stringify([names, more]));
}

const MOST_LINES = 40;
const MOST_LINE = 200;
const TELLING = /error|expected|assert|panic|exception|fail|cannot|undefined|unexpected|not found/i;

function timeless(line: string): string {
  return line
    .slice(0, MOST_LINE)
    .replace(/\/(?:tmp|var\/folders|private\/tmp)\/\S{0,200}/g, "<temporary>")
    .replace(/\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?\S{0,12})?|\b\d\d?:\d\d:\d\d(?:\.\d{1,9})?\b/g, "<time>")
    .replace(/\b\d{1,12}(?:\.\d{1,12})? ?(?:ms|µs|us|ns|s|sec|secs|seconds?|m|min|minutes?)\b/g, "<time>")
    .replace(/\b0x[0-9a-f]{1,40}\b/gi, "<id>")
    .replace(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?=[0-9a-f]{0,40}\d)[0-9a-f]{7,64}\b/gi, "<id>")
    .replace(/(\.[A-Za-z]{1,6}):\d{1,9}(?::\d{1,9})?\b|\(\d{1,9},\d{1,9}\)|\bline \d{1,9}\b/g, "$1<place>")
    .replace(/\(\d{3,12}\)|\b\d{5,}\b|duration_ms:? \d[\d.]{0,20}/g, "<number>")
    .trim();
}
