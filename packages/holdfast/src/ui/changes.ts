/** What changed between two points of runs, on all planes; and the page of one checkpoint. Reads only. */
import type { Checkpoint, CheckpointSummary, Planes } from "@holdfast/core/checkpoint";
import { diffJson } from "@holdfast/core/diff-json";
import { reliedOn } from "@holdfast/core/findings";
import { type Json, isJsonArray, isJsonObject } from "@holdfast/core/json";
import { createMasking } from "@holdfast/core/mask";
import { type RunSummary, parseAddress } from "@holdfast/core/run";
import type { ChangedFile, Changes, CheckpointPage, FilePatch, TextRange } from "@holdfast/dashboard/api";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { skippedPaths } from "../cli/output/run-text.ts";
import { countLines } from "../compare-measures.ts";
import type { Holdfast } from "../holdfast.ts";
import { checkpointActions, commandText, parseKey } from "./actions.ts";
import type { OpenRepository, Repositories } from "./repositories.ts";
import { rangeOf, readEffects } from "./run-page.ts";
import { savedWhen } from "./timeline.ts";

/** One end of a comparison. */
interface Side {
  readonly opened: OpenRepository;
  readonly run: string;
  /** As the page shows it: `issue-42@5`. */
  readonly name: string;
  /** As the CLI names it; null: the worktree. */
  readonly address: string | null;
  /** Tree or commit; null: it has no files. */
  readonly tree: string | null;
  readonly planes: Planes | null;
  /** The journal entry of this end. */
  readonly entry: number;
  readonly leftOut: Parameters<typeof skippedPaths>[0];
}

/** `shop/issue-42@5`, `…@worktree`, `…@base`, `…@latest` or `…@tag`. */
async function sideOf(repositories: Repositories, address: string): Promise<Side> {
  const at = address.lastIndexOf("@");
  const { repository, run } = parseKey(at === -1 ? address : address.slice(0, at));
  const where = at === -1 ? "latest" : address.slice(at + 1);
  const opened = await repositories.open(repository);
  const { holdfast } = opened;
  const handle = await holdfast.run(run);
  if (where === "worktree") {
    const root = (await handle.workspace())?.root;
    const files = root === undefined ? null : await (await opened.look()).currentFiles(root);
    const name = `${run}@worktree`;
    return {
      opened,
      run,
      name,
      address: null,
      tree: files?.tree ?? null,
      planes: null,
      entry: Infinity,
      leftOut: files,
    };
  }
  if (where === "base") {
    const summary = await handle.summary();
    const { tree, address } = (await baseOf(opened, summary)) ?? { tree: null, address: null };
    const name = `${run}@base`;
    return { opened, run, name, address, tree, planes: null, entry: 0, leftOut: null };
  }
  parseAddress(`${run}@${where}`);
  const { sequence } = await holdfast.resolve(`${run}@${where}`);
  const checkpoint = await handle.get(sequence);
  const { planes, entry, id } = checkpoint;
  const tree = planes.files?.tree ?? null;
  return { opened, run, name: id, address: id, tree, planes, entry, leftOut: planes.files };
}

/** What the work of a run is compared with: the commit that it builds on, or else its first files. `address`: as the CLI names it. */
export async function baseOf(
  opened: OpenRepository,
  run: RunSummary,
): Promise<{ readonly tree: string; readonly address: string } | null> {
  const { checkpoint } = await (await opened.holdfast.run(run.id)).newestWhole();
  const planes = checkpoint?.planes;
  const commit = planes === undefined ? null : (reliedOn(planes).base?.commit ?? planes.files?.base ?? null);
  if (commit !== null) return { tree: commit, address: commit };
  const { start } = (await opened.read(run)).story;
  return start === null ? null : { tree: start.tree, address: `${run.id}@${start.sequence}` };
}

async function sidesOf(repositories: Repositories, a: string, b: string): Promise<readonly [Side, Side]> {
  const [from, to] = [await sideOf(repositories, a), await sideOf(repositories, b)];
  if (from.opened.named.key !== to.opened.named.key)
    throw usageError("Both sides must be in one repository", "Compare the runs instead.");
  return [from, to];
}

/** Trees never change, so a difference between two of them is computed once. Those used last are kept, up to a size. */
export class Differences {
  readonly #kept = new Map<string, { readonly value: Promise<unknown>; size: number }>();
  readonly #most: number;
  #running = 0;
  #size = 0;

  constructor(most = MAX_KEPT) {
    this.#most = most;
  }

  /** `sizeOf`: about how many characters a value has. */
  async of<T>(key: string, sizeOf: (value: T) => number, compute: () => Promise<T>): Promise<T> {
    const known = this.#kept.get(key);
    // The key contains the kind of the value.
    if (known !== undefined) {
      this.#kept.delete(key);
      this.#kept.set(key, known);
      return (await known.value) as T;
    }
    if (this.#running >= MAX_DIFFS)
      throw new HoldfastError({
        code: "STORE_BUSY",
        message: "Too many differences are being computed",
        hint: "Try again in a moment.",
        retry: "later",
      });
    this.#running += 1;
    const kept = { value: compute().finally(() => (this.#running -= 1)), size: 0 };
    this.#kept.set(key, kept);
    try {
      const value = await kept.value;
      kept.size = sizeOf(value);
      this.#size += kept.size;
      this.#forgetOldest();
      return value;
    } catch (error) {
      this.#kept.delete(key);
      throw error;
    }
  }

  #forgetOldest(): void {
    for (const [key, { size }] of this.#kept) {
      if (this.#size <= this.#most) return;
      // One that is being computed has no size yet.
      if (size === 0) continue;
      this.#kept.delete(key);
      this.#size -= size;
    }
  }
}

const MAX_DIFFS = 16;
/** Characters of all differences that are kept. */
const MAX_KEPT = 16 * 1024 * 1024;
/** A file of a difference: as the page names it, and its names in git. */
export interface FoundFile {
  readonly shown: ChangedFile;
  readonly paths: readonly string[];
}

/** A name may have a secret, so the page gets a masked one. It is unique in its list, because the page asks for the file by it. */
export function showNames(files: readonly ChangedFile[], mask: (text: string) => string): readonly FoundFile[] {
  const taken = new Set(files.map(({ path }) => path));
  return files.map((file) => {
    const { path, from } = file;
    const masked = mask(path);
    let name = masked;
    for (let count = 2; name !== path && taken.has(name); count += 1) name = `${masked} (${count})`;
    taken.add(name);
    return {
      shown: { ...file, path: name, from: from === null ? null : mask(from) },
      paths: from === null ? [path] : [path, from],
    };
  });
}

const MAX_PATCH = 1024 * 1024;
const MAX_TEXT = 64 * 1024;

export class ChangesReader {
  readonly #repositories: Repositories;
  readonly #differences = new Differences();
  readonly #mask = createMasking().mask;

  constructor(repositories: Repositories) {
    this.#repositories = repositories;
  }

  async changes(a: string, b: string): Promise<Changes> {
    const [from, to] = await sidesOf(this.#repositories, a, b);
    const effects = await readEffects(to.opened, to.run);
    // Entries of another run have numbers of their own.
    const after = from.run === to.run ? from.entry : 0;
    return {
      a: from.name,
      b: to.name,
      files: (await this.#files(from, to))?.map(({ shown }) => shown) ?? null,
      ...valuesBetween(from.planes, to.planes),
      conversation: conversationBetween(from.planes, to.planes),
      effects: effects.filter(({ entry }) => entry > after && entry <= to.entry),
      notCompared: [from.leftOut, to.leftOut]
        .flatMap(skippedPaths)
        .map(({ path, why }) => this.#mask(`${path}: ${why}`)),
      command: diffCommand(from, to),
    };
  }

  /** One file of the list, by the name that the list has for it. Only paths of the list reach git. */
  async file(a: string, b: string, path: string): Promise<FilePatch> {
    const [from, to] = await sidesOf(this.#repositories, a, b);
    const files = await this.#files(from, to);
    const file = files?.find(({ shown }) => shown.path === path);
    if (file === undefined || from.tree === null || to.tree === null)
      throw new HoldfastError({ code: "CHECKPOINT_NOT_FOUND", message: "This file does not differ between the two" });
    const pair = { from: from.tree, to: to.tree, files: [file], all: files?.length === 1 };
    const [patch = { path, patch: "", truncated: false }] = await this.patches(to.opened, pair);
    return patch;
  }

  /** One comparison for all files, because each needs several processes of git. `all`: no other file differs. */
  async patches(
    opened: OpenRepository,
    params: {
      readonly from: string;
      readonly to: string;
      readonly files: readonly FoundFile[];
      readonly all: boolean;
    },
  ): Promise<readonly FilePatch[]> {
    const { from, to, files, all } = params;
    const paths = files.flatMap((file) => file.paths);
    const key = ["patch", opened.named.store, from, to, ...paths].join("\n");
    const sizeOf = (patches: readonly FilePatch[]): number => patches.reduce((sum, { patch }) => sum + patch.length, 1);
    return await this.#differences.of(key, sizeOf, async () => {
      const diff = await (await opened.look()).diff({ from, to, format: "patch", ...(all ? {} : { paths }) });
      const parts = diff.text.split(/(?<=\n)(?=diff --git )/);
      // Git writes a file that became a link, or the reverse, as removed and added.
      const partOf = new Map(
        diff.files.map(({ path, status }) => [path, parts.splice(0, status === "type_changed" ? 2 : 1).join("")]),
      );
      return files.map(({ shown: { path }, paths: [name = ""] }) => {
        const text = partOf.get(name) ?? "";
        const truncated = text.length > MAX_PATCH;
        const patch = truncated ? text.slice(0, text.lastIndexOf("\n", MAX_PATCH) + 1) : text;
        // The store holds masked text only. Files are as they are, so their text is masked here, as `diff` does.
        return { path, patch: shortLines(this.#mask(patch)), truncated };
      });
    });
  }

  /** null: one side has no files. */
  async #files(from: Side, to: Side): Promise<readonly FoundFile[] | null> {
    if (from.tree === null || to.tree === null) return null;
    return await this.filesBetween(to.opened, from.tree, to.tree);
  }

  async filesBetween(opened: OpenRepository, from: string, to: string): Promise<readonly FoundFile[]> {
    const sizeOf = (files: readonly FoundFile[]): number =>
      files.reduce((sum, { shown }) => sum + shown.path.length + 200, 1);
    return await this.#differences.of(`list\n${opened.named.store}\n${from}\n${to}`, sizeOf, async () => {
      const { files, text } = await (await opened.look()).diff({ from, to, format: "counts" });
      const { changed } = countLines(files, text);
      const counted = files.map((file, at) => {
        const { added = null, removed = null } = changed[at] ?? {};
        return { ...file, added, removed };
      });
      return showNames(counted, this.#mask);
    });
  }

  async checkpoint(opened: OpenRepository, run: string, sequence: number): Promise<CheckpointPage> {
    const { holdfast, named } = opened;
    const { status } = await holdfast.runWithStatus(run);
    const summary = await holdfast.resolve(`${run}@${sequence}`);
    const read = await readWhole(holdfast, summary);
    const key = `${named.key}/${run}`;
    const planes = read.checkpoint?.planes;
    const effects = await readEffects(opened, run);
    return {
      run: key,
      checkpoint: summary,
      saved: savedWhen(summary.trigger),
      integrity: { whole: read.problems.length === 0, problems: read.problems },
      files: planes?.files == null ? null : filesOf(planes.files, this.#mask),
      state: planes === undefined ? null : stateOf(planes),
      conversation:
        planes === undefined ? null : conversationOf(planes, `/api/runs/${key}/checkpoints/${sequence}/transcript`),
      effects: effects.filter(({ entry }) => entry <= summary.entry),
      actions: checkpointActions({ key, status }, summary),
      command: commandText(named, ["show", `${run}@${sequence}`]),
    };
  }

  async transcript(
    { holdfast }: OpenRepository,
    params: { readonly run: string; readonly sequence: number; readonly offset: number; readonly limit: number },
  ): Promise<TextRange> {
    const { planes } = await (await holdfast.run(params.run)).get(params.sequence);
    const bytes = Buffer.from(planes.conversation?.transcript?.text ?? "");
    const start = params.offset < 0 ? Math.max(0, bytes.length + params.offset) : Math.min(params.offset, bytes.length);
    return rangeOf(bytes.subarray(start, start + params.limit), start, bytes.length);
  }
}

/** Reading checks every digest; the tree must be in the repository too. Damage is what the page shows, not an error. */
async function readWhole(
  holdfast: Holdfast,
  { run, sequence, quarantined }: CheckpointSummary,
): Promise<{ readonly checkpoint: Checkpoint | null; readonly problems: readonly string[] }> {
  const problems = quarantined ? ["It is quarantined as damaged: no run resumes from it"] : [];
  try {
    const checkpoint = await holdfast.store.getCheckpoint({ run, sequence });
    const { files } = checkpoint.planes;
    // The check of `verify`: every object of the tree.
    const isHere = files === null || holdfast.workspaces === null || (await holdfast.workspaces.has(files));
    const missing = isHere ? [] : [`Git objects of tree ${files?.tree} are missing or damaged`];
    return { checkpoint, problems: [...problems, ...missing] };
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    return { checkpoint: null, problems: [...problems, error.message] };
  }
}

function filesOf(files: NonNullable<Planes["files"]>, mask: (text: string) => string): CheckpointPage["files"] {
  const { tree, head, branch } = files;
  const notSaved = skippedPaths(files).map(({ path, why }) => ({ path: mask(path), why }));
  return { tree, head, branch: branch === null ? null : mask(branch.replace(/^refs\/heads\//, "")), notSaved };
}

/** Values as the store holds them. A long text is cut, and says so. */
function stateOf({ position, context }: Planes): Json {
  return shorten({ position: position as object as Json, values: context.values });
}

const LONG = 8000;

function shorten(value: Json): Json {
  if (typeof value === "string")
    return value.length > LONG ? `${value.slice(0, LONG)}… (${value.length} characters)` : value;
  if (isJsonArray(value)) return value.map(shorten);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, shorten(inner)]));
}

function conversationOf({ conversation }: Planes, href: string): CheckpointPage["conversation"] {
  if (conversation === null) return null;
  const { agent, session, transcript } = conversation;
  return { agent, session, bytes: transcript?.bytes ?? 0, href: transcript === null ? null : href };
}

function valuesBetween(from: Planes | null, to: Planes | null): Pick<Changes, "values" | "moreValues"> {
  if (from === null || to === null) return { values: [], moreValues: false };
  const values = ({ position, context }: Planes): Json => ({
    position: position as object as Json,
    context: context as object as Json,
  });
  const { changes, truncated } = diffJson({ from: values(from), to: values(to) });
  const shown = changes.map(({ path, ...sides }) => ({
    path,
    ...("from" in sides ? { from: shorten(sides.from ?? null) } : {}),
    ...("to" in sides ? { to: shorten(sides.to ?? null) } : {}),
  }));
  return { values: shown, moreValues: truncated };
}

/** A transcript is a list of lines, one a message. */
function conversationBetween(from: Planes | null, to: Planes | null): Changes["conversation"] {
  const after = to?.conversation?.transcript?.text;
  if (after === undefined) return null;
  const before = from?.conversation?.transcript?.text ?? "";
  const added = after.startsWith(before) ? after.slice(before.length) : after;
  const messages = added.split("\n").filter((line) => line !== "").length;
  return { messages, text: added.length > MAX_TEXT ? `…${added.slice(-MAX_TEXT)}` : added };
}

function diffCommand(from: Side, to: Side): string {
  const addresses = from.address === null ? [to.name] : [from.address, ...(to.address === null ? [] : [to.address])];
  return commandText(to.opened.named, ["diff", ...addresses]);
}

/** A line of megabytes would stop the browser. */
function shortLines(patch: string): string {
  if (!patch.split("\n").some((line) => line.length > LONG)) return patch;
  return patch
    .split("\n")
    .map((line) => (line.length > LONG ? `${line.slice(0, LONG)}…` : line))
    .join("\n");
}
