import { dirname } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import { makeDurableDirectory, writeDurable } from "../../system/durable-file.ts";
import { createMasking } from "../../system/own-secrets.ts";
import { readRegularFile } from "../../system/regular-file.ts";

/** An agent's file of a session, as it may be kept; null: there is none. */
export function readSessionFile(params: { readonly path: string | null; readonly title: string }): string | null {
  const { path, title } = params;
  const file = path === null ? null : readRegularFile({ path, maxBytes: MAX_BYTES });
  if (file?.kind === "refused") throw unreadable(title, file.why);
  return file?.kind === "read" ? createMasking().mask(file.bytes.toString("utf8")) : null;
}

export function writeSessionFile({ path, text }: { readonly path: string; readonly text: string }): void {
  makeDurableDirectory(dirname(path));
  writeDurable({ path, data: Buffer.from(text), mode: "replace" });
}

const MAX_BYTES = 64 * 1024 * 1024;

function unreadable(title: string, why: string): HoldfastError {
  const hint = `The run goes on; the session can still be gone on with from ${title}'s own file.`;
  return new HoldfastError({ code: "IO_FAILED", message: `A transcript of ${title} cannot be kept: ${why}`, hint });
}
