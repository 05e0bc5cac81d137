import { HoldfastError } from "../../core/error.ts";
import { escapeLines, escapeText } from "./escape-text.ts";
import { paint } from "./page.ts";
import type { Page } from "./page.ts";

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
  const [first = "", ...more] = escapeLines(error.message.trim()).split("\n");
  const lines = [`${paint(page, "red", "error:")} ${first}`, ...more.map((line) => `       ${line}`)];
  const excerpt = error.data["excerpt"];
  if (typeof excerpt === "string")
    lines.push(
      ...escapeLines(excerpt)
        .split("\n")
        .map((line) => `  ${line}`),
    );
  if (hint !== null) lines.push(`${paint(page, "cyan", "hint:")}  ${escapeLines(hint)}`);
  return `${lines.join("\n")}\n`;
}

/** The one shape of a failure under --json. */
export function errorDocument(error: HoldfastError, hint: string | null): unknown {
  const { code, message, retry, data } = error;
  return { error: { code, message, hint, retry, data } };
}
