import type { FilesPlane, Skipped } from "../../core/checkpoint/checkpoint.ts";
import { byteText } from "./byte-text.ts";
import { displayWidth, truncate } from "./display-width.ts";
import { escapeText } from "./escape-text.ts";
import { paint } from "./page.ts";
import type { Page } from "./page.ts";

/** A path that a checkpoint does not hold, and why. Named aloud everywhere: it must not come as a surprise later. */
export interface LeftOut {
  readonly path: string;
  readonly why: string;
}

export function leftOutOf(files: Pick<FilesPlane, "skipped" | "nested"> | null): readonly LeftOut[] {
  if (files === null) return [];
  const nested = files.nested.map(({ path }) => ({ path: folder(path), why: REASONS.nested_repository }));
  const named = new Set(nested.map(({ path }) => path));
  const skipped = files.skipped
    .map(({ path, reason, bytes }) => ({
      path: reason === "nested_repository" ? folder(path) : path,
      why: reasonText(reason, bytes),
    }))
    .filter(({ path }) => !named.has(path));
  return [...nested, ...skipped];
}

export function reasonText(reason: keyof typeof REASONS, bytes: number | null): string {
  return `${REASONS[reason]}${bytes === null ? "" : `, ${byteText(bytes)}`}`;
}

/** One marked line; where it does not fit, the path gives way and the reason stays. */
export function leftOutLine(left: LeftOut, middle: string, page: Page, indent = "  "): string {
  const tail = `${middle}: ${left.why}`;
  const room = Math.max(12, page.width - indent.length - 3 - displayWidth(tail));
  return `${indent}${paint(page, "yellow", "!")} ${truncate(escapeText(left.path), room)} ${tail}\n`;
}

const REASONS = {
  too_large: "too large",
  special_file: "not a regular file",
  unreadable: "unreadable",
  nested_repository: "a git repository of its own",
  ignored: "ignored",
  sparse: "outside the sparse checkout",
} as const satisfies Readonly<Record<Skipped["reason"] | "ignored" | "sparse", string>>;

function folder(path: string): string {
  return path.endsWith("/") || path.endsWith('"') ? path : `${path}/`;
}
