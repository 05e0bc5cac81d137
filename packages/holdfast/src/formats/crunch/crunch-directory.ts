import { HoldfastError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import type { ForeignCheckpoint, ForeignFile, Remark } from "../format.ts";
import { invalidDocument } from "../refusals.ts";
import { decodeCrunch } from "./decode-crunch.ts";
import { decodeIndex } from "./crunch-index.ts";
import type { CrunchIndexEntry } from "./crunch-index.ts";
import { compareEntries, makeIndex } from "./make-index.ts";
import { parseTrigger } from "./crunch-triggers.ts";

/** What lies in `.claude/crunch/<issue>/checkpoints`. */
export interface CrunchListing {
  /** All regular files; paths as given by the user, of which the last part is the name. */
  readonly files: readonly ForeignFile[];
  /** Target of the link `latest` as it stands there; null without one. Where it is a file, that is among the files. */
  readonly link: string | null;
}

export interface CrunchDirectory {
  /** Oldest first. */
  readonly checkpoints: readonly CrunchFile[];
  /** Could not be read, and why. They are left alone by every plan. */
  readonly broken: readonly BrokenFile[];
  /** As it should be; `problems` is empty when it is just that. */
  readonly index: { readonly name: string; readonly document: JsonObject; readonly problems: readonly string[] };
  /** Name of the newest file, and what the link or the pointer file says; null: neither is there. */
  readonly latest: { readonly name: string | null; readonly said: string | null; readonly as: "link" | "file" | null };
  readonly remarks: readonly Remark[];
}

export interface BrokenFile {
  readonly name: string;
  readonly error: HoldfastError;
}

export interface CrunchFile {
  readonly name: string;
  readonly checkpoint: ForeignCheckpoint;
}

/**
 * The files are the truth; the index and `latest` are derived and may be missing, cut or behind by a crash. What the index
 * alone knows (the trigger, the order of equal times, fields of others) is taken from it where it can be read.
 */
export function readCrunchDirectory(listing: CrunchListing): CrunchDirectory {
  const remarks: Remark[] = [];
  const read: CrunchFile[] = [];
  const broken: BrokenFile[] = [];
  let indexFile: ForeignFile | null = null;
  let pointer: ForeignFile | null = null;
  for (const file of listing.files) {
    const name = nameOf(file.path);
    if (name === "latest") pointer = file;
    else if (INDEX_NAME.test(name)) indexFile = preferYaml(indexFile, file);
    else if (CHECKPOINT_NAME.test(name)) readFile(file, name, { read, broken, remarks });
    else remarks.push({ path: name, text: "is no file of crunch's: left alone" });
  }
  const old = readIndex(indexFile);
  const entries = new Map(old.entries.map((entry, place) => [entry.checkpoint_id, { entry, place }]));
  const checkpoints = setTwinsAside(read, broken)
    .map((file) => withTrigger(file, entries.get(file.checkpoint.id ?? "")?.entry))
    .toSorted((a, b) => compareEntries(a, b, (id) => entries.get(id)?.place));
  const made = makeIndex({ checkpoints, old: old.document });
  const newest = checkpoints.at(-1)?.name ?? null;
  const said = listing.link ?? pointedAt(pointer);
  return {
    checkpoints,
    broken,
    index: {
      name: indexFile === null ? "index.yaml" : nameOf(indexFile.path),
      document: made.document,
      problems: old.problem === null ? made.problems : [old.problem],
    },
    latest: { name: newest, said, as: listing.link !== null ? "link" : pointer !== null ? "file" : null },
    remarks,
  };
}

/** Of several files with one id, the one that is named after it counts; the others are left alone. */
function setTwinsAside(read: readonly CrunchFile[], broken: BrokenFile[]): readonly CrunchFile[] {
  const chosen = new Map<string | null, CrunchFile>();
  const named = ({ name, checkpoint }: CrunchFile): boolean => name.replace(CHECKPOINT_NAME, "") === checkpoint.id;
  for (const file of read.toSorted((a, b) => Number(named(b)) - Number(named(a)) || (a.name < b.name ? -1 : 1))) {
    const { id } = file.checkpoint;
    const other = chosen.get(id);
    if (other === undefined) chosen.set(id, file);
    else {
      const source = { format: "crunch-yaml", file: file.name } as const;
      const why = `there is the id of ${other.name}`;
      broken.push({ name: file.name, error: invalidDocument(source, { path: "/checkpoint_id", why }) });
    }
  }
  return [...chosen.values()];
}

const INDEX_NAME = /^index\.(?:ya?ml|json)$/i;
const CHECKPOINT_NAME = /\.(?:ya?ml|json)$/i;

function nameOf(path: string): string {
  return path.split(/[/\\]/).at(-1) ?? path;
}

function preferYaml(one: ForeignFile | null, other: ForeignFile): ForeignFile {
  return one === null || /json$/i.test(one.path) ? other : one;
}

function readFile(
  file: ForeignFile,
  name: string,
  into: {
    readonly read: CrunchFile[];
    readonly broken: BrokenFile[];
    readonly remarks: Remark[];
  },
): void {
  try {
    const decoded = decodeCrunch(file);
    into.remarks.push(...decoded.remarks.map((remark) => ({ ...remark, path: `${name}#${remark.path}` })));
    for (const checkpoint of decoded.checkpoints) {
      into.read.push({ name, checkpoint });
      if (name.replace(CHECKPOINT_NAME, "") !== checkpoint.id) {
        into.remarks.push({ path: name, text: `is named otherwise than its id, ${checkpoint.id}` });
      }
    }
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    into.broken.push({ name, error });
  }
}

function readIndex(file: ForeignFile | null): {
  readonly entries: readonly CrunchIndexEntry[];
  readonly document: JsonObject | null;
  readonly problem: string | null;
} {
  if (file === null) return { entries: [], document: null, problem: "there is no index" };
  try {
    const { index, document } = decodeIndex(file);
    return { entries: index.checkpoints, document, problem: null };
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    return { entries: [], document: null, problem: error.message };
  }
}

/** The document's own word counts; crunch's own files have none. */
function withTrigger(file: CrunchFile, entry: CrunchIndexEntry | undefined): CrunchFile {
  const word = entry?.trigger ?? null;
  const said = file.checkpoint.original?.document["trigger"];
  if (word === null || (said !== undefined && said !== null)) return file;
  return { ...file, checkpoint: { ...file.checkpoint, trigger: parseTrigger(word) ?? "automatic" } };
}

/** Where there are no links, a file holds the name; some tools put a copy of the checkpoint there instead. */
function pointedAt(pointer: ForeignFile | null): string | null {
  if (pointer === null) return null;
  const text = new TextDecoder().decode(pointer.bytes.subarray(0, 4096)).trim();
  if (!text.includes("\n")) return nameOf(text);
  try {
    return decodeCrunch(pointer).checkpoints[0]?.id ?? null;
  } catch {
    return null;
  }
}
