import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ForeignFile } from "../../formats/format.ts";

const ROOT = join(import.meta.dirname, "../../formats/golden");

export interface Golden {
  /** The folder it lies in: the format's name. */
  readonly format: string;
  /** Its path below that folder, which is also the path that the codec is told. */
  readonly name: string;
  readonly file: ForeignFile;
}

/** Where the decoded form of a golden is kept. */
export function expectedPath(golden: Golden): string {
  return join(ROOT, golden.format, EXPECTED, `${golden.name.replaceAll("/", "__")}.decoded.json`);
}

const EXPECTED = "expected";

/** golden/<format>/**: files as the foreign tools write them. They are never edited. */
export function readGoldens(): readonly Golden[] {
  return readdirSync(ROOT, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted()
    .flatMap((path) => {
      const [format = "", ...rest] = path.slice(ROOT.length + 1).split("/");
      const name = rest.join("/");
      if (rest[0] === EXPECTED) return [];
      return [{ format, name, file: { path: name, bytes: readFileSync(path), compression: "none" } as const }];
    });
}
