import type { Planes } from "../../core/checkpoint/checkpoint.ts";
import { isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { FORMAT_NAMES } from "../../core/format-names.ts";
import { TRIGGERS } from "../../core/checkpoint/trigger.ts";
import type { Trigger } from "../../core/checkpoint/trigger.ts";
import type { Parts } from "../../engine/parts.ts";
import type { ForeignCheckpoint, FormatName } from "../../formats/format.ts";

/** Extension under which a checkpoint keeps the document it came from, whole. */
export const IMPORTED = "imported";

/** Label of a run that was imported: what it was made of. */
export const IMPORT_LABEL = "import";
/** Journal entry with the last checkpoint of an import: from then on it is whole. */
export const IMPORT_ENTRY = "x.imported";

export interface Imported {
  readonly format: FormatName;
  readonly id: string | null;
  readonly createdAt: string | null;
  readonly trigger: Trigger;
  readonly document: JsonObject | null;
}

export function withImported(foreign: ForeignCheckpoint, format: FormatName): Planes {
  const { id, createdAt, trigger, original, planes } = foreign;
  // As text: the store keeps JSON in its canonical form, in which the order of the fields would be lost.
  const document = original === null ? null : JSON.stringify(original.document);
  const kept: JsonObject = { format, id, createdAt, trigger, document };
  return {
    ...planes,
    // A tree of another repository pins nothing here; what the document says of it stays in the document.
    files: null,
    effects: { entry: 0, pending: [] },
    extensions: { ...planes.extensions, [IMPORTED]: kept },
  };
}

export function importedOf(planes: Pick<Planes, "extensions">): Imported | null {
  const kept: Json | undefined = planes.extensions[IMPORTED];
  if (!isJsonObject(kept)) return null;
  const { id, createdAt, document } = kept;
  const format = FORMAT_NAMES.find((name) => name === kept["format"]);
  const trigger = TRIGGERS.find((name) => name === kept["trigger"]);
  if (format === undefined || trigger === undefined) return null;
  return {
    format,
    id: typeof id === "string" ? id : null,
    createdAt: typeof createdAt === "string" ? createdAt : null,
    trigger,
    document: documentOf(document),
  };
}

function documentOf(text: Json | undefined): JsonObject | null {
  if (typeof text !== "string") return null;
  const document: Json = JSON.parse(text);
  return isJsonObject(document) ? document : null;
}

/** A process may have died in the middle of it. */
export async function isWhole(parts: Parts, run: string): Promise<boolean> {
  for await (const { kind } of parts.store.readJournal({ run })) if (kind === IMPORT_ENTRY) return true;
  return false;
}

/** Where the document says that its files are: formats put it into an extension of their own. */
export function namedWorktrees(extensions: JsonObject): readonly string[] {
  return Object.values(extensions).flatMap((extension) => {
    const path = isJsonObject(extension) ? extension["worktree"] : undefined;
    return typeof path === "string" && path.startsWith("/") ? [path] : [];
  });
}
