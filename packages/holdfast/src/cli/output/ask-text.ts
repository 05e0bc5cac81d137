import { createInterface } from "node:readline/promises";
import type { Readable, Writable } from "node:stream";

/** One line; Enter, and the end of input, take what stands in brackets. */
export async function askText(params: {
  readonly question: string;
  readonly fallback: string;
  /** The fallback as a terminal may show it. */
  readonly shownFallback: string;
  readonly input: Readable;
  readonly output: Writable;
  readonly signal: AbortSignal;
}): Promise<string> {
  const { question, fallback } = params;
  const reader = createInterface({ input: params.input, output: params.output });
  const closed = new Promise<string>((resolve) => {
    reader.once("close", () => resolve(""));
  });
  // readline swallows Ctrl+C while it reads; hand it on to the one place that handles it.
  reader.once("SIGINT", () => process.emit("SIGINT"));
  try {
    const shown = fallback === "" ? question : `${question} [${params.shownFallback}]`;
    const answer = await Promise.race([reader.question(`${shown} `, { signal: params.signal }), closed]);
    return answer.trim() === "" ? fallback : answer.trim();
  } finally {
    reader.close();
  }
}
