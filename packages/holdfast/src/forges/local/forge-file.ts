import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import { readRegularFile } from "../../system/regular-file.ts";
import type { ForgePlace } from "./forge-place.ts";

type Place = Pick<ForgePlace, "directory">;

/** A file of the forge; undefined when there is none. People write them too, so nothing is taken for granted. */
export function readForgeFile(
  place: Place,
  path: string,
): { readonly text: string; readonly changedAt: Date } | undefined {
  const full = join(place.directory, path);
  const found = readRegularFile({ path: full, maxBytes: MAX_BYTES });
  switch (found.kind) {
    case "absent":
      return undefined;
    case "refused":
      throw damagedFile(place, path, found.why);
    case "read":
      return { text: decode(place, path, found.bytes), changedAt: statSync(full).mtime };
  }
}

/** Numbers of the files `<number><ending>` in a folder, ascending. */
export function listNumbers(place: Place, folder: string, ending: string): readonly number[] {
  return listNames(join(place.directory, folder))
    .filter((name) => name.endsWith(ending))
    .map((name) => name.slice(0, -ending.length))
    .filter((name) => /^[1-9]\d{0,8}$/.test(name))
    .map(Number)
    .sort((a, b) => a - b);
}

export function damagedFile(place: Place, path: string, why: string): HoldfastError {
  const full = join(place.directory, path);
  return new HoldfastError({
    code: "FORGE_FAILED",
    message: `${full} cannot be used: ${why}`,
    hint: "Mend the file by hand, or move it away.",
    retry: "ask",
    data: { path: full, why },
  });
}

const MAX_BYTES = 64 * 1024 * 1024;

function listNames(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  }
}

function decode(place: Place, path: string, bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw damagedFile(place, path, "it is not UTF-8 text");
  }
}
