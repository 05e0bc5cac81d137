/** What changed between two points of runs, on all planes; and the page of one checkpoint. Reads only. */
import type { Checkpoint, CheckpointSummary, Planes } from "@holdfast/core/checkpoint";
import { diffJson } from "@holdfast/core/diff-json";
import { reliedOn } from "@holdfast/core/findings";
import { type Json, isJsonArray, isJsonObject } from "@holdfast/core/json";
import { createMasking } from "@holdfast/core/mask";
import { parseAddress } from "@holdfast/core/run";
import type { ChangedFile, Changes, CheckpointPage, FilePatch, TextRange } from "@holdfast/dashboard/api";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { skippedPaths } from "../cli/output/run-text.ts";
import { countLines } from "../compare-measures.ts";
import type { Holdfast } from "../holdfast.ts";
import { checkpointActions, parseKey } from "./actions.ts";
import type { OpenRepository, Repositories } from "./repositories.ts";
import { effectRow, rangeOf } from "./run-page.ts";

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
  readonly at: string;
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
    const files = await holdfast.currentFiles(run);
    const now = new Date(repositories.now()).toISOString();
    const name = `${run}@worktree`;
    return { opened, run, name, address: null, tree: files?.tree ?? null, planes: null, at: now, leftOut: files };
  }
  if (where === "base") {
    const { checkpoint } = await handle.newestWhole();
    const { createdAt } = await handle.summary();
    const tree = checkpoint === undefined ? null : baseOf(checkpoint.planes);
    return { opened, run, name: `${run}@base`, address: tree, tree, planes: null, at: createdAt, leftOut: null };
  }
  parseAddress(`${run}@${where}`);
  const { sequence } = await holdfast.resolve(`${run}@${where}`);
  const checkpoint = await handle.get(sequence);
  const { planes, createdAt, id } = checkpoint;
  const tree = planes.files?.tree ?? null;
  return { opened, run, name: id, address: id, tree, planes, at: createdAt, leftOut: planes.files };
}

function baseOf(planes: Planes): string | null {
  return reliedOn(planes).base?.commit ?? planes.files?.base ?? planes.files?.head ?? null;
}

async function sidesOf(repositories: Repositories, a: string, b: string): Promise<readonly [Side, Side]> {
  const [from, to] = [await sideOf(repositories, a), await sideOf(repositories, b)];
  if (from.opened.named.key !== to.opened.named.key)
    throw usageError("Both sides must be in one repository", "Compare the runs instead.");
  return [from, to];
}

/** Trees never change, so a difference between two of them is computed once. */
class Differences {
  readonly #kept = new Map<string, Promise<unknown>>();
  #running = 0;

  async of<T>(key: string, compute: () => Promise<T>): Promise<T> {
    const known = this.#kept.get(key);
    // The key contains the kind of the value.
    if (known !== undefined) return (await known) as T;
    if (this.#running >= MAX_DIFFS)
      throw new HoldfastError({
        code: "STORE_BUSY",
        message: "Too many differences are being computed",
        hint: "Try again in a moment.",
        retry: "later",
      });
    this.#running += 1;
    const computing = compute().finally(() => (this.#running -= 1));
    this.#kept.set(key, computing);
    computing.catch(() => this.#kept.delete(key));
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > MAX_KEPT && oldest !== undefined) this.#kept.delete(oldest);
    return await computing;
  }
}

const MAX_DIFFS = 16;
const MAX_KEPT = 200;
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
    const { holdfast } = to.opened;
    const effects = (await holdfast.store.listEffects(to.run)).map(effectRow);
    return {
      a: from.name,
      b: to.name,
      files: await this.#files(from, to),
      values: from.planes === null || to.planes === null ? [] : valuesBetween(from.planes, to.planes),
      conversation: conversationBetween(from.planes, to.planes),
      effects: effects.filter(({ at }) => at > from.at && at <= to.at),
      notCompared: [from.leftOut, to.leftOut].flatMap(skippedPaths).map(({ path, why }) => `${path}: ${why}`),
      command: diffCommand(from, to),
    };
  }

  /** One file of the list. Only paths that the list has reach git. */
  async file(a: string, b: string, path: string): Promise<FilePatch> {
    const [from, to] = await sidesOf(this.#repositories, a, b);
    const files = await this.#files(from, to);
    const file = files?.find((one) => one.path === path);
    if (file === undefined || from.tree === null || to.tree === null)
      throw new HoldfastError({ code: "CHECKPOINT_NOT_FOUND", message: "This file does not differ between the two" });
    return await this.patch(to.opened, { from: from.tree, to: to.tree, file });
  }

  async patch(
    { named, holdfast }: OpenRepository,
    params: { readonly from: string; readonly to: string; readonly file: ChangedFile },
  ): Promise<FilePatch> {
    const { from, to, file } = params;
    const paths = file.from === null ? [file.path] : [file.path, file.from];
    return await this.#differences.of(`patch\n${named.store}\n${from}\n${to}\n${file.path}`, async () => {
      const text = (await holdfast.workspaces?.diff({ from, to, paths, format: "patch" }))?.text ?? "";
      const truncated = text.length > MAX_PATCH;
      const patch = truncated ? text.slice(0, text.lastIndexOf("\n", MAX_PATCH) + 1) : text;
      // The store holds masked text only. Files are as they are, so their text is masked here, as `diff` does.
      return { path: file.path, patch: shortLines(this.#mask(patch)), truncated };
    });
  }

  /** null: one side has no files. */
  async #files(from: Side, to: Side): Promise<readonly ChangedFile[] | null> {
    if (from.tree === null || to.tree === null) return null;
    return await this.filesBetween(to.opened, from.tree, to.tree);
  }

  async filesBetween({ named, holdfast }: OpenRepository, from: string, to: string): Promise<readonly ChangedFile[]> {
    return await this.#differences.of(`list\n${named.store}\n${from}\n${to}`, async () => {
      const diff = await holdfast.workspaces?.diff({ from, to, format: "counts" });
      if (diff === undefined) return [];
      const counted = countLines(diff.files, diff.text);
      return diff.files.map((file, at) => {
        const { added = null, removed = null } = counted.changed[at] ?? {};
        return { path: file.path, from: file.from, status: file.status, added, removed };
      });
    });
  }

  async checkpoint(opened: OpenRepository, run: string, sequence: number): Promise<CheckpointPage> {
    const { holdfast, named } = opened;
    const handle = await holdfast.run(run);
    const { status } = await holdfast.runWithStatus(run);
    const summary = await holdfast.resolve(`${run}@${sequence}`);
    const read = await readWhole(holdfast, summary);
    const key = `${named.key}/${run}`;
    const planes = read.checkpoint?.planes;
    const effects = (await holdfast.store.listEffects(handle.id)).map(effectRow);
    return {
      run: key,
      checkpoint: summary,
      integrity: { whole: read.problems.length === 0, problems: read.problems },
      files: planes?.files == null ? null : filesOf(planes.files),
      state: planes === undefined ? null : stateOf(planes),
      conversation:
        planes === undefined ? null : conversationOf(planes, `/api/runs/${key}/checkpoints/${sequence}/transcript`),
      effects: effects.filter(({ at }) => at <= summary.createdAt),
      actions: checkpointActions({ key, status }, summary),
      command: `holdfast show ${run}@${sequence}`,
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

function filesOf(files: NonNullable<Planes["files"]>): CheckpointPage["files"] {
  const { tree, head, branch } = files;
  const notSaved = skippedPaths(files).map(({ path, why }) => ({ path, why }));
  return { tree, head, branch: branch?.replace(/^refs\/heads\//, "") ?? null, notSaved };
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

function valuesBetween(from: Planes, to: Planes): Changes["values"] {
  const values = ({ position, context }: Planes): Json => ({
    position: position as object as Json,
    context: context as object as Json,
  });
  return diffJson({ from: values(from), to: values(to) }).changes.map(({ path, ...sides }) => ({
    path,
    ...("from" in sides ? { from: shorten(sides.from ?? null) } : {}),
    ...("to" in sides ? { to: shorten(sides.to ?? null) } : {}),
  }));
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
  if (from.address === null) return `holdfast diff ${to.name}`;
  return to.address === null ? `holdfast diff ${from.address}` : `holdfast diff ${from.address} ${to.address}`;
}

/** A line of megabytes would stop the browser. */
function shortLines(patch: string): string {
  if (!patch.split("\n").some((line) => line.length > LONG)) return patch;
  return patch
    .split("\n")
    .map((line) => (line.length > LONG ? `${line.slice(0, LONG)}…` : line))
    .join("\n");
}
