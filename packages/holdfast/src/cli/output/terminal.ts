/** Writes to the standard streams: sinks that escape control characters, progress lines, errors and questions. */
import type { PreflightFinding } from "../../preflight-facts.ts";
import type { Interface } from "node:readline/promises";
import type { Readable, Writable } from "node:stream";
import { HoldfastError } from "@holdfast/platform/error";
import { type Page, controlSequence, paint } from "./page.ts";
import { escapeLines, escapeText, escapeUnmarked, removeStyleMarks, truncate, wrapProse } from "./text.ts";

/** A stream that may be closed early: `| head -1` does that, and it must not stop a restore half-way. */
export interface Sink {
  /**
   * Returns false once the stream is closed, so that streams of data can stop. Control characters are escaped, except
   * in "content" (a patch, a document, an agent's log) that does not go to a terminal.
   */
  write(text: string, kind?: "message" | "content"): boolean;
  /** The text as `write` would write it, for questions that readline writes. */
  shown(text: string): string;
  /** Resolves when all written data has left the process. */
  drained(): Promise<void>;
  /** Why output was lost (a full disk behind `>`); a reader that closed the stream is not a failure. */
  failure(): Error | undefined;
}

export interface Streams {
  readonly out: Sink;
  readonly err: Sink;
}

interface SinkParams {
  readonly stream: Writable & { readonly isTTY?: boolean };
  /** Hides secrets in each text that is written. */
  readonly mask?: (text: string) => string;
  /** The seal of the pages whose text is written here. */
  readonly seal: string;
}

export function createSink({ stream, mask = (text) => text, seal }: SinkParams): Sink {
  const shown = (text: string): string => escapeUnmarked(mask(text), seal);
  let open = true;
  let failure: Error | undefined;
  let pending: Promise<void> = Promise.resolve();
  const note = (error: NodeJS.ErrnoException): void => {
    open = false;
    if (error.code !== "EPIPE") failure ??= error;
  };
  stream.on("error", note);
  return {
    shown,
    write(text, kind = "message") {
      if (!open || text === "") return open;
      pending = new Promise((resolve) => {
        const written = kind === "content" && stream.isTTY !== true ? removeStyleMarks(mask(text), seal) : shown(text);
        stream.write(written, (error) => {
          if (error) note(error);
          resolve();
        });
      });
      return open;
    },
    drained: () => pending,
    failure: () => failure,
  };
}

/** Progress of long work: one redrawn line on a terminal, an occasional plain line elsewhere. */
export interface Progress {
  update(text: string): void;
  /** Removes the line before the result is printed. */
  done(): void;
}

interface ProgressParams {
  readonly write: (text: string) => void;
  readonly terminal: boolean;
  readonly width: number;
  readonly seal?: string;
  readonly now: () => number;
}

export function createProgress(params: ProgressParams): Progress {
  const every = params.terminal ? REDRAW_MS : LINE_MS;
  let shownAt = params.terminal ? Number.NEGATIVE_INFINITY : params.now();
  const clear = controlSequence(params, "", "G") + controlSequence(params, "2", "K");
  let drawn = false;
  return {
    update(text) {
      const now = params.now();
      if (now - shownAt < every) return;
      shownAt = now;
      drawn = true;
      params.write(params.terminal ? clear + truncate(escapeText(text), params.width - 1) : `${text}\n`);
    },
    done() {
      if (drawn && params.terminal) params.write(clear);
      drawn = false;
    },
  };
}

export const NO_PROGRESS: Progress = { update() {}, done() {} };

const REDRAW_MS = 100;
const LINE_MS = 5000;

/** Converts anything thrown to a HoldfastError. Any other error is a bug in the program. */
export function toHoldfastError(thrown: unknown): HoldfastError {
  if (thrown instanceof HoldfastError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new HoldfastError({
    code: "INTERNAL",
    message: `Unexpected failure: ${message}`,
    hint: "This is a bug in Holdfast; with HOLDFAST_DEBUG=1 it shows where it happened.",
    cause: thrown,
  });
}

/**
 * The user wanted the interruption, so it is shown without "error:" and without colour. The code is for docs/errors.md;
 * for a wrong call the message says all that the page does.
 */
export function errorText(error: HoldfastError, hint: string | null, page: Page): string {
  if (error.code === "INTERRUPTED") return `${escapeText(error.message)}\n`;
  const code = error.code === "USAGE" ? null : error.code;
  const { excerpt } = error.data;
  return saidText({ level: "error", code, message: error.message, hint, excerpt }, page);
}

/** The further findings of an error of the preflight. */
export function findingsIn({ data }: HoldfastError): readonly PreflightFinding[] {
  const { more } = data;
  return Array.isArray(more) ? more.filter(isFinding) : [];
}

function isFinding(value: unknown): value is PreflightFinding {
  return typeof value === "object" && value !== null && "level" in value && "message" in value && "hint" in value;
}

/** An error or a notice, with the hint below it. */
export function saidText(
  said: {
    readonly level: "error" | "notice";
    readonly code: string | null;
    readonly message: string;
    readonly hint: string | null;
    readonly excerpt?: unknown;
  },
  page: Page,
): string {
  const { level, excerpt } = said;
  const code = said.code === null ? "" : ` [${said.code}]`;
  const margin = `${level}: `.length;
  const [first = "", ...more] = wrapLines(`${escapeLines(ownLines(said.message.trim()))}${code}`, page, margin);
  const label = paint(page, level === "error" ? "red" : "yellow", `${level}:`);
  const lines = [`${label} ${first}`, ...more.map((line) => `${" ".repeat(margin)}${line}`)];
  if (typeof excerpt === "string")
    lines.push(
      ...escapeLines(excerpt)
        .split("\n")
        .map((line) => `  ${line}`),
    );
  if (said.hint !== null) {
    const [start = "", ...rest] = wrapLines(escapeLines(said.hint), page, "hint:  ".length);
    lines.push(`${paint(page, "cyan", "hint:")}  ${start}`, ...rest.map((line) => `       ${line}`));
  }
  return `${lines.join("\n")}\n`;
}

/**
 * A message may quote an argument or git's output. A line in it that looks like our own hint or error is joined to the
 * previous line.
 */
function ownLines(message: string): string {
  return message.replaceAll(/[;,]?\s*[\n\r]\s*(?=(?:hint|error):)/gi, "; ");
}

function wrapLines(text: string, page: Page, margin: number): readonly string[] {
  return wrapProse(text, page, Math.min(page.width, WIDEST) - margin).split("\n");
}

const WIDEST = 100;

/** The only format of a failure under --json. */
export function errorDocument(
  error: HoldfastError,
  hint: string | null,
  link: { readonly page?: string } = {},
): unknown {
  const { code, message, retry, data } = error;
  return { error: { code, message, hint, retry, data, ...link } };
}

/** Anything but a clear yes is a no. Enter is a yes only where nothing can be lost; the end of the input never is. */
export async function askYesNo(params: {
  readonly question: string;
  readonly enter?: "yes" | "no";
  readonly input: Readable;
  readonly output: Writable;
  readonly signal: AbortSignal;
}): Promise<"yes" | "no"> {
  const reader = await createReader(params);
  const closed = new Promise<string>((resolve) => {
    reader.once("close", () => resolve("no"));
  });
  // readline swallows Ctrl+C while it reads, so this passes it on to the signal handler.
  reader.once("SIGINT", () => process.emit("SIGINT"));
  const { enter = "no" } = params;
  try {
    const answer = await Promise.race([
      reader.question(`${params.question} ${enter === "yes" ? "[Y/n]" : "[y/N]"} `, { signal: params.signal }),
      closed,
    ]);
    return /^\s*y(es)?\s*$/i.test(answer) || (answer.trim() === "" && enter === "yes") ? "yes" : "no";
  } finally {
    reader.close();
  }
}

/** Asks for one line. Enter and the end of input return the value in brackets. */
export async function askText(params: {
  readonly question: string;
  readonly fallback: string;
  /** The fallback as it may be shown on a terminal. */
  readonly shownFallback: string;
  readonly input: Readable;
  readonly output: Writable;
  readonly signal: AbortSignal;
}): Promise<string> {
  const { question, fallback } = params;
  const reader = await createReader(params);
  const closed = new Promise<string>((resolve) => {
    reader.once("close", () => resolve(""));
  });
  // readline swallows Ctrl+C while it reads, so this passes it on to the signal handler.
  reader.once("SIGINT", () => process.emit("SIGINT"));
  try {
    const shown = fallback === "" ? question : `${question} [${params.shownFallback}]`;
    const answer = await Promise.race([reader.question(`${shown} `, { signal: params.signal }), closed]);
    return answer.trim() === "" ? fallback : answer.trim();
  } finally {
    reader.close();
  }
}

async function createReader({
  input,
  output,
}: {
  readonly input: Readable;
  readonly output: Writable;
}): Promise<Interface> {
  // Loaded on demand: most commands ask nothing.
  const { createInterface } = await import("node:readline/promises");
  return createInterface({ input, output });
}
