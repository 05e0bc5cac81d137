import type { FilesPlane, GitPath } from "../../core/checkpoint/checkpoint.ts";
import type { FileChange, Untouched } from "../../ports/workspace.ts";
import { LINK_MODE } from "../indexes/index-memo.ts";
import { parentOf } from "../capture/inspect-path.ts";
import type { Found } from "../capture/plan-capture.ts";
import { inScope } from "../path-scope.ts";
import { parsePath, quotePath, type RawPath } from "../raw-path.ts";
import type { TreeChange, TreeEntry } from "../capture/tree-diff.ts";

interface RestoreFacts {
  readonly from: Pick<FilesPlane, "skipped" | "nested">;
  readonly to: Pick<FilesPlane, "skipped" | "nested">;
  /** Between the two trees, inside the asked-for paths. */
  readonly changes: readonly TreeChange[];
  /** Of the paths that would be removed: those that the restored ignore rules cover. */
  readonly ignored: ReadonlySet<RawPath>;
}

export interface RestoreLooks {
  readonly found: (path: RawPath) => Found;
  /** Does the file on disk hold exactly this entry already? */
  readonly holds: (path: RawPath, entry: TreeEntry) => boolean;
  /** Files below a folder on disk, and folders that hold a repository of their own. */
  readonly filesBelow: (path: RawPath) => readonly RawPath[];
}

interface RestoreDecision {
  readonly changes: readonly FileChange[];
  readonly untouched: readonly Untouched[];
  readonly blocked: readonly GitPath[];
  /** Changes that will not be made: the path keeps what `from` has. */
  readonly kept: readonly TreeChange[];
}

/** What to write, remove and leave. Nothing that is not in `from` may be written over or removed. */
export function decideRestore(facts: RestoreFacts, looks: RestoreLooks): RestoreDecision {
  const skippedNow = pathSet(facts.from.skipped);
  const skippedThen = new Map(facts.to.skipped.map((skip) => [parsePath(skip.path) ?? "", skip]));
  const nestedNow = pathSet(facts.from.nested);
  const nestedThen = pathSet(facts.to.nested);
  const untouched: Untouched[] = [];
  const inTheWay = new Set<RawPath>();
  const kept: TreeChange[] = [];
  const wanted: TreeChange[] = [];

  const leave = (change: TreeChange, why: Omit<Untouched, "path">): void => {
    untouched.push({ path: quotePath(change.path), ...why });
    kept.push(change);
  };
  for (const change of facts.changes) {
    const { path, from, to } = change;
    const removes = to === null;
    const then = skippedThen.get(path);
    const repository = from?.mode === LINK_MODE ? path : enclosing(path, nestedNow);
    // A file of the target inside a repository of its own cannot be written: refused, unless the file is as it should be.
    if (repository !== undefined && to !== null && to.mode !== LINK_MODE && !looks.holds(path, to)) {
      inTheWay.add(repository);
      kept.push(change);
    } else if (repository !== undefined || to?.mode === LINK_MODE) leave(change, NESTED);
    // In the snapshot of now and yet not on disk: a sparse checkout leaves it out, and so do we.
    else if (from !== null && looks.found(path).kind === "absent") leave(change, { reason: "sparse", bytes: null });
    else if (removes && inScope(path, nestedThen)) leave(change, NESTED);
    else if (removes && then !== undefined) leave(change, { reason: then.reason, bytes: then.bytes });
    else if (removes && facts.ignored.has(path)) leave(change, { reason: "ignored", bytes: null });
    else wanted.push(change);
  }
  const changes = wanted.flatMap((change) => planChange(change, looks) ?? []);
  const blocked = new Set([...inTheWay, ...findObstacles({ changes, skipped: skippedNow }, looks)]);
  for (const skip of facts.from.skipped) if (!blocked.has(parsePath(skip.path) ?? "")) untouched.push(skip);
  return { changes, untouched, blocked: [...blocked].map(quotePath), kept };
}

/**
 * What stands where a new file or one of its folders must go, and is not removed by the same changes. A folder with a git
 * repository of its own is an obstacle too: no snapshot of this worktree sees a file inside it.
 */
export function findObstacles(
  facts: { readonly changes: readonly FileChange[]; readonly skipped: ReadonlySet<RawPath> },
  looks: Pick<RestoreLooks, "found" | "filesBelow">,
): readonly RawPath[] {
  const removed = pathSet(facts.changes.filter(({ kind }) => kind === "remove"));
  const created = pathSet(facts.changes.filter(({ kind }) => kind === "create"));
  const repositories = new Map<RawPath, boolean>();
  const isRepository = (folder: RawPath): boolean => {
    const known = repositories.get(folder) ?? looks.found(`${folder}/.git`).kind !== "absent";
    repositories.set(folder, known);
    return known;
  };
  const obstacles = [...created].flatMap((path) => {
    for (let folder = parentOf(path); folder !== ""; folder = parentOf(folder)) {
      const { kind } = looks.found(folder);
      if (kind !== "directory" && kind !== "absent") return removed.has(folder) ? [] : [folder];
      if (kind === "directory" && isRepository(folder)) return [folder];
    }
    const { kind } = looks.found(path);
    if (kind === "absent") return facts.skipped.has(path) ? [path] : [];
    if (kind !== "directory") return [path];
    return isRepository(path) ? [path] : looks.filesBelow(path).filter((file) => !removed.has(file));
  });
  return [...new Set(obstacles)];
}

/** The innermost of these folders that is the path or holds it. */
function enclosing(path: RawPath, folders: ReadonlySet<RawPath>): RawPath | undefined {
  for (let at = path; at !== ""; at = parentOf(at)) if (folders.has(at)) return at;
  return undefined;
}

function planChange({ path: raw, from, to }: TreeChange, looks: RestoreLooks): FileChange | undefined {
  const path = quotePath(raw);
  if (to === null) return { kind: "remove", path };
  if (from === null) return looks.holds(raw, to) ? undefined : { kind: "create", path, mode: to.mode };
  const modeOnly = from.id === to.id && isRegular(from.mode) && isRegular(to.mode);
  return { kind: modeOnly ? "mode" : "write", path, mode: to.mode };
}

const NESTED = { reason: "nested_repository", bytes: null } as const;

export function isRegular(mode: string): boolean {
  return mode === "100644" || mode === "100755";
}

function pathSet(items: readonly { readonly path: GitPath }[]): ReadonlySet<RawPath> {
  return new Set(items.flatMap(({ path }) => parsePath(path) ?? []));
}
