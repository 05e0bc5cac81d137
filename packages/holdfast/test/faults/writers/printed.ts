import { writeSync } from "node:fs";

/** The lines that a writer prints, each once its promise has resolved; "saving" and "dropping" before the request. */
export type PrintedLine =
  | { readonly kind: "saving"; readonly sequence: number }
  | { readonly kind: "saved"; readonly sequence: number; readonly digest: string }
  | { readonly kind: "dropping"; readonly sequence: number }
  | { readonly kind: "dropped"; readonly sequence: number }
  | { readonly kind: "tagged"; readonly sequence: number; readonly name: string }
  | { readonly kind: "effect"; readonly key: string; readonly state: string }
  /** A write was refused with this error code. */
  | { readonly kind: "refused"; readonly code: string; readonly what: string }
  | { readonly kind: "note"; readonly text: string };

/** One write(2), so that a line is whole or absent, and the tracer sees it in its place. */
export function printLine(printed: PrintedLine): void {
  writeSync(1, `${JSON.stringify(printed)}\n`);
}

export function parsePrinted(lines: readonly string[]): readonly PrintedLine[] {
  return lines.filter((line) => line !== "").map((line) => checkPrinted(JSON.parse(line)));
}

function checkPrinted(value: unknown): PrintedLine {
  if (typeof value !== "object" || value === null || !("kind" in value))
    throw new Error(`a writer printed ${JSON.stringify(value)}`);
  const text = (key: string): string => {
    const found: unknown = Reflect.get(value, key);
    if (typeof found !== "string") throw new Error(`a writer printed ${JSON.stringify(value)} without ${key}`);
    return found;
  };
  const count = (key: string): number => {
    const found: unknown = Reflect.get(value, key);
    if (typeof found !== "number") throw new Error(`a writer printed ${JSON.stringify(value)} without ${key}`);
    return found;
  };
  switch (value.kind) {
    case "saving":
      return { kind: "saving", sequence: count("sequence") };
    case "saved":
      return { kind: "saved", sequence: count("sequence"), digest: text("digest") };
    case "dropping":
      return { kind: "dropping", sequence: count("sequence") };
    case "dropped":
      return { kind: "dropped", sequence: count("sequence") };
    case "tagged":
      return { kind: "tagged", sequence: count("sequence"), name: text("name") };
    case "effect":
      return { kind: "effect", key: text("key"), state: text("state") };
    case "refused":
      return { kind: "refused", code: text("code"), what: text("what") };
    case "note":
      return { kind: "note", text: text("text") };
    default:
      throw new Error(`a writer printed ${JSON.stringify(value)}`);
  }
}
