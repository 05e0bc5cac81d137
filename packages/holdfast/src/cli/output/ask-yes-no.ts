import { createInterface } from "node:readline/promises";
import type { Readable, Writable } from "node:stream";

/** Anything but a clear yes is a no: the destructive answer is never the one that Enter gives. */
export async function askYesNo(params: {
  readonly question: string;
  readonly input: Readable;
  readonly output: Writable;
  readonly signal: AbortSignal;
}): Promise<"yes" | "no"> {
  const reader = createInterface({ input: params.input, output: params.output });
  const closed = new Promise<string>((resolve) => {
    reader.once("close", () => resolve(""));
  });
  // readline swallows Ctrl+C while it reads; hand it on to the one place that handles it.
  reader.once("SIGINT", () => process.emit("SIGINT"));
  try {
    const answer = await Promise.race([
      reader.question(`${params.question} [y/N] `, { signal: params.signal }),
      closed,
    ]);
    return /^\s*y(es)?\s*$/i.test(answer) ? "yes" : "no";
  } finally {
    reader.close();
  }
}
