import type { Answer } from "./bench.ts";

/** What scripted agents do in these tests. The first answer that fits a call is taken. */

export const title = "[feat][#1] Add a greeting";

/** Writes a file and reports that everything is done. */
export function finish(
  params: {
    readonly iteration?: number;
    readonly path?: string;
    readonly text?: string;
    readonly title?: string;
    readonly body?: string;
  } = {},
): Answer {
  const { iteration, path = "greeting.txt", text = "hello\n" } = params;
  return {
    when: { role: "impl", ...(iteration === undefined ? {} : { iteration }) },
    edits: [{ do: "write", path, text }],
    finalize: { title: params.title ?? title, body: params.body ?? "Why." },
    commitReport: `Write ${path}`,
    reply: `I wrote ${path}.`,
  };
}

export function score(value: number, iteration?: number): Answer {
  return {
    when: { role: "review", ...(iteration === undefined ? {} : { iteration }) },
    scores: { faithful: value, style: value, docs: value, corner_cases: value },
  };
}

export const pass: Answer = score(95);
