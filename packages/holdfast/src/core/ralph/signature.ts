import type { Digest } from "../json.ts";
import { pureSha256 } from "../sha256.ts";
import type { Failing } from "./metrics.ts";
import { outputLines } from "./output-lines.ts";

/**
 * The same for the same failure, however long it took and wherever it ran: how the command ended, the names of what fails, and the lines that tell
 * of it, without numbers, addresses, times and paths of temporary files, in whatever order they came.
 */
export function signatureOf(params: {
  readonly kind: string;
  readonly code: number | null;
  readonly failing: Failing;
  readonly output: string;
}): Digest {
  const { kind, code, failing, output } = params;
  const lines = outputLines(output)
    .map(timeless)
    .filter((line) => line !== "");
  const telling = [...new Set(lines.filter((line) => TELLING.test(line)))].toSorted().slice(0, MOST_LINES);
  const said = telling.length > 0 ? telling : lines.slice(-MOST_LINES);
  return pureSha256(JSON.stringify([kind, code, failing.names, failing.more, said]));
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
    .replace(/\b0x[0-9a-f]{1,40}\b/gi, "<number>")
    .replace(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?=[0-9a-f]{0,40}\d)[0-9a-f]{7,64}\b/gi, "<id>")
    .replace(/\d[\d.,:]{0,60}/g, "<number>")
    .trim();
}
