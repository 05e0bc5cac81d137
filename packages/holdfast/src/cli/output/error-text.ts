import { HoldfastError } from "../../core/error.ts";
import { displayWidth } from "./display-width.ts";
import { escapeLines, escapeText } from "./escape-text.ts";
import { paint } from "./page.ts";
import type { Page } from "./page.ts";
import { wrap } from "./wrap.ts";

/** Anything that was thrown, as one of ours. What is not one of ours is a mistake of the program. */
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

/** Being interrupted is what the person wanted: no error, and no colour of one. */
export function errorText(error: HoldfastError, hint: string | null, page: Page): string {
  if (error.code === "INTERRUPTED") return `${escapeText(error.message)}\n`;
  const [first = "", ...more] = wrapLines(escapeLines(ownLines(error.message.trim())), page);
  const lines = [`${paint(page, "red", "error:")} ${first}`, ...more.map((line) => `       ${line}`)];
  const excerpt = error.data["excerpt"];
  if (typeof excerpt === "string")
    lines.push(
      ...escapeLines(excerpt)
        .split("\n")
        .map((line) => `  ${line}`),
    );
  if (hint !== null) {
    const [start = "", ...rest] = wrapLines(escapeLines(hint), page);
    lines.push(`${paint(page, "cyan", "hint:")}  ${start}`, ...rest.map((line) => `       ${line}`));
  }
  return `${lines.join("\n")}\n`;
}

/** A message may quote an argument, or what git printed. A line of it that looks like a hint or an error of ours is joined to the line before. */
function ownLines(message: string): string {
  return message.replaceAll(/[;,]?\s*[\n\r]\s*(?=(?:hint|error):)/gi, "; ");
}

/** For eyes only: whoever reads a pipe looks for whole lines. What stands in backquotes is there to be copied and is not broken. */
function wrapLines(text: string, page: Pick<Page, "width" | "terminal">): readonly string[] {
  const lines = text.split("\n");
  if (!page.terminal) return lines;
  const room = Math.min(page.width, WIDEST) - MARGIN;
  return lines.flatMap((line) => {
    if (displayWidth(line) <= room) return [line];
    const indent = /^\s*/.exec(line)?.[0] ?? "";
    const kept = line.trim().replaceAll(/`[^`]*`/g, (code) => code.replaceAll(" ", GLUE));
    return wrap(kept, room - indent.length).map((part) => indent + part.replaceAll(GLUE, " "));
  });
}

/** Cannot be in text that was escaped. */
const GLUE = "\0";
const MARGIN = "error: ".length;
const WIDEST = 100;

/** The one shape of a failure under --json. */
export function errorDocument(error: HoldfastError, hint: string | null): unknown {
  const { code, message, retry, data } = error;
  return { error: { code, message, hint, retry, data } };
}
