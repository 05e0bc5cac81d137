// What the finished steps of a stage attempt record about its side worktrees.

import type { Skipped } from "./checkpoint.ts";
import { type Json, isJsonObject } from "./json.ts";
import type { StageAttempt } from "./position.ts";

/** Result of the step that opens a side worktree. */
export type SideWorktreeOpened = {
  readonly kind: "side-worktree.opened";
  readonly base: string;
  readonly skipped: readonly { readonly [K in keyof Skipped]: Skipped[K] }[];
};

/** Result of the step that merges or drops a side worktree. */
export type SideWorktreeClosed = { readonly kind: "side-worktree.closed"; readonly sideWorktree: string };

/** Names of the side worktrees that the stage attempt opened and did not close: their folders are needed. */
export function openSideWorktrees(steps: Iterable<readonly [string, Json]>): ReadonlySet<string> {
  const opened = new Set<string>();
  const closed = new Set<string>();
  for (const [name, result] of steps) {
    if (!isJsonObject(result)) continue;
    if (result["kind"] === "side-worktree.opened") opened.add(name);
    if (result["kind"] === "side-worktree.closed" && typeof result["sideWorktree"] === "string")
      closed.add(result["sideWorktree"]);
  }
  for (const name of closed) opened.delete(name);
  return opened;
}

/**
 * Commits that are needed to recreate or merge the open side worktrees of the stage attempt: their bases, and the results of calls in them.
 */
export function neededSideWorktree(steps: Iterable<readonly [string, Json]>): ReadonlySet<string> {
  const all = [...steps];
  const open = openSideWorktrees(all);
  const needed = new Set<string>();
  for (const [name, result] of all) {
    if (!isJsonObject(result)) continue;
    const { kind, base, commit, sideWorktree } = result;
    if (kind === "side-worktree.opened" && open.has(name) && typeof base === "string") needed.add(base);
    const where = isJsonObject(sideWorktree) ? sideWorktree["name"] : undefined;
    if (typeof where === "string" && open.has(where) && typeof commit === "string") needed.add(commit);
  }
  return needed;
}

/**
 * After a rewind or fork, calls in side worktrees that were in flight begin again. Their sessions remember work that no files have any more,
 * and the side worktree is recreated.
 */
export function forgetSideWorktreeCalls(stageAttempt: StageAttempt): StageAttempt {
  const { sideWorktrees, ...rest } = stageAttempt;
  if (sideWorktrees === undefined) return stageAttempt;
  const without = <T>(record: Readonly<Record<string, T>>): Readonly<Record<string, T>> =>
    Object.fromEntries(Object.entries(record).filter(([step]) => !Object.hasOwn(sideWorktrees, step)));
  return {
    ...rest,
    ...(rest.running === undefined ? {} : { running: without(rest.running) }),
    ...(rest.sessions === undefined ? {} : { sessions: without(rest.sessions) }),
  };
}

/** The newest commit of a side worktree, from the finished calls in it: the one that no other call began from. */
export function sideWorktreeTip(
  steps: Iterable<readonly [string, Json]>,
  sideWorktree: { readonly name: string; readonly base: string },
): string {
  const next = new Map<string, string>();
  for (const [, result] of steps) {
    if (!isJsonObject(result) || !isJsonObject(result["sideWorktree"])) continue;
    const { commit, sideWorktree: where } = result;
    const { name, from } = where;
    if (name === sideWorktree.name && typeof from === "string" && typeof commit === "string" && commit !== from)
      next.set(from, commit);
  }
  let tip = sideWorktree.base;
  for (let after = next.get(tip); after !== undefined; after = next.get(tip)) {
    next.delete(tip);
    tip = after;
  }
  return tip;
}
