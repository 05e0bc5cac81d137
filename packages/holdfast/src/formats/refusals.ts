import { HoldfastError } from "../core/error.ts";
import type { FormatName } from "./format.ts";

/** What every codec refuses, in the same words: those in which the older tools reported the same troubles. */

export interface Source {
  readonly format: FormatName;
  /** The file's path as the user gave it. */
  readonly file: string;
}

/** It can be read, but it is not a document of this format. */
export function invalidDocument(
  source: Source,
  trouble: { readonly path: string; readonly why: string; readonly line?: number },
): HoldfastError {
  const where = trouble.path === "" ? "its root" : trouble.path;
  return new HoldfastError({
    code: "FORMAT_INVALID",
    message: `Invalid checkpoint data in ${source.file} (${source.format}): at ${where} ${trouble.why}`,
    hint: "Nothing was changed. Correct the document at that place, or take another copy of it.",
    data: { ...source, path: trouble.path, ...(trouble.line === undefined ? {} : { line: trouble.line }) },
  });
}

/** Its bytes do not make a document at all: cut off, not UTF-8, or built to exhaust whoever reads it. */
export function damagedDocument(
  source: Source,
  trouble: { readonly why: string; readonly line?: number; readonly cause?: unknown },
): HoldfastError {
  return new HoldfastError({
    code: "FORMAT_DAMAGED",
    message: `Corrupted checkpoint file ${source.file} (${source.format}): ${trouble.why}`,
    hint: "Nothing was changed. Take another copy of the file, or an older checkpoint.",
    data: { ...source, path: "", ...(trouble.line === undefined ? {} : { line: trouble.line }) },
    cause: trouble.cause,
  });
}

export function newerDocument(
  source: Source,
  trouble: { readonly path: string; readonly version: string; readonly known: string },
): HoldfastError {
  return new HoldfastError({
    code: "FORMAT_TOO_NEW",
    message: `Checkpoint version mismatch in ${source.file} (${source.format}): expected ${trouble.known}, got ${trouble.version}`,
    hint: "Nothing was changed. A newer Holdfast may know that version; the tool that wrote it can write an older one.",
    data: { ...source, path: trouble.path, version: trouble.version },
  });
}
