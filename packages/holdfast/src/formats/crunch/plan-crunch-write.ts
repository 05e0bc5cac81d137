import { HoldfastError } from "../../core/error.ts";
import { isJsonObject } from "../../core/json.ts";
import type { ForeignCheckpoint, Loss } from "../format.ts";
import { writeJson } from "../write-json.ts";
import { writeYaml } from "../write-yaml.ts";
import type { CrunchDirectory, CrunchFile } from "./crunch-directory.ts";
import { documentOf, encodeCrunch } from "./encode-crunch.ts";
import type { CrunchEncoding } from "./encode-crunch.ts";
import { compareEntries, makeIndex } from "./make-index.ts";

/** Names are relative to the directory. To be done in this order, each one durable before the next. */
export type CrunchAction =
  | { readonly kind: "write"; readonly name: string; readonly bytes: Uint8Array }
  /** A symbolic link, made under another name and put in place of what is there. */
  | { readonly kind: "link"; readonly name: string; readonly target: string }
  | { readonly kind: "remove"; readonly name: string };

export interface CrunchWritePlan {
  readonly actions: readonly CrunchAction[];
  readonly losses: readonly { readonly id: string; readonly losses: readonly Loss[] }[];
}

/**
 * What brings a directory to hold these checkpoints too: new files first, then the index, then `latest`, and only then goes
 * what is no longer named. Stopped anywhere, crunch finds a directory that is whole, at worst with an index that is behind.
 * An empty `add` repairs the index and `latest` alone. Broken files stay where they are.
 */
export function planCrunchWrite(params: {
  readonly directory: CrunchDirectory;
  readonly add: readonly ForeignCheckpoint[];
  /** Ids. */
  readonly drop?: readonly string[];
  readonly encoding?: CrunchEncoding;
  /** false: `latest` becomes a file that holds the name. */
  readonly links: boolean;
}): CrunchWritePlan {
  const { directory, encoding = "yaml" } = params;
  const drop = new Set(params.drop ?? []);
  const added = params.add.map((checkpoint) => prepare(checkpoint, encoding));
  const there = new Map(directory.checkpoints.map((file) => [file.checkpoint.id, file]));
  const writes: CrunchAction[] = [];
  for (const { file, bytes } of added) {
    refuseForeign(directory, file);
    writes.push({ kind: "write", name: there.get(file.checkpoint.id)?.name ?? file.name, bytes });
    there.set(file.checkpoint.id, { ...file, name: there.get(file.checkpoint.id)?.name ?? file.name });
  }
  const places = placesOf(directory);
  const checkpoints = [...there.values()]
    .filter(({ checkpoint }) => !drop.has(checkpoint.id ?? ""))
    .toSorted((a, b) => compareEntries(a, b, (id) => places.get(id)));
  const { document } = makeIndex({ checkpoints, old: directory.index.document });
  const { name } = directory.index;
  if (JSON.stringify(document) !== JSON.stringify(directory.index.document) || directory.index.problems.length > 0) {
    const bytes = /json$/i.test(name) ? writeJson(document) : new TextEncoder().encode(writeYaml(document));
    writes.push({ kind: "write", name, bytes });
  }
  const dropped = directory.checkpoints.filter(({ checkpoint }) => drop.has(checkpoint.id ?? ""));
  return {
    actions: [
      ...writes,
      ...planLatest({ directory, newest: checkpoints.at(-1)?.name ?? null, links: params.links }),
      ...dropped.map((file): CrunchAction => ({ kind: "remove", name: file.name })),
    ],
    losses: added.map(({ file, losses }) => ({ id: file.checkpoint.id ?? "", losses })),
  };
}

function prepare(
  checkpoint: ForeignCheckpoint,
  encoding: CrunchEncoding,
): { readonly file: CrunchFile; readonly bytes: Uint8Array; readonly losses: readonly Loss[] } {
  const { bytes, path, losses } = encodeCrunch(checkpoint, encoding);
  const { document } = documentOf(checkpoint);
  const name = path.slice(path.lastIndexOf("/") + 1);
  // The index speaks of what stands in the file.
  const written: ForeignCheckpoint = {
    ...checkpoint,
    id: String(document["checkpoint_id"]),
    original: { format: "crunch-yaml", document },
  };
  return { file: { name, checkpoint: written }, bytes, losses };
}

/** A file that we could not read may be the only copy of something: it is not overwritten. */
function refuseForeign(directory: CrunchDirectory, file: CrunchFile): void {
  if (!directory.broken.some(({ name }) => name === file.name)) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `${file.name} cannot be written: a file of that name is there and cannot be read`,
    hint: "Move it away first; nothing was changed.",
  });
}

function placesOf(directory: CrunchDirectory): ReadonlyMap<string, number> {
  const listed = directory.index.document["checkpoints"];
  const ids = Array.isArray(listed)
    ? listed.map((entry) => (isJsonObject(entry) ? String(entry["checkpoint_id"]) : ""))
    : [];
  return new Map(ids.map((id, place) => [id, place]));
}

function planLatest(params: {
  readonly directory: CrunchDirectory;
  readonly newest: string | null;
  readonly links: boolean;
}): readonly CrunchAction[] {
  const { said, as } = params.directory.latest;
  if (params.newest === null) return as === null ? [] : [{ kind: "remove", name: "latest" }];
  const form = params.links ? "link" : "file";
  if (said === params.newest && as === form) return [];
  return params.links
    ? [{ kind: "link", name: "latest", target: params.newest }]
    : [{ kind: "write", name: "latest", bytes: new TextEncoder().encode(`${params.newest}\n`) }];
}
