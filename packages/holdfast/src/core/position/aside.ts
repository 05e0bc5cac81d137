import type { Skipped } from "../checkpoint/checkpoint.ts";
import type { Json } from "../json.ts";
import { isJsonObject } from "../json.ts";
import { pureSha256 } from "../sha256.ts";
import type { Visit } from "./visit.ts";

/** What the step that opens an aside leaves in the visit. */
export type AsideOpened = {
  readonly kind: "aside.opened";
  readonly base: string;
  readonly skipped: readonly { readonly [K in keyof Skipped]: Skipped[K] }[];
};

/** What the step that merges or gives up an aside leaves there. */
export type AsideClosed = { readonly kind: "aside.closed"; readonly aside: string };

/** Safe in a path whatever the name, and another one for every other name. */
export function asideKey(name: string): string {
  const words = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-+|-+$/g, "")
    .slice(0, 32)
    .replace(/-+$/, "");
  const digest = pureSha256(name).slice(0, 10);
  return words === "" ? digest : `${words}-${digest}`;
}

/** Names of the asides that the visit opened and did not close: their folders are needed. */
export function openAsides(steps: Iterable<readonly [string, Json]>): ReadonlySet<string> {
  const opened = new Set<string>();
  const closed = new Set<string>();
  for (const [name, result] of steps) {
    if (!isJsonObject(result)) continue;
    if (result["kind"] === "aside.opened") opened.add(name);
    if (result["kind"] === "aside.closed" && typeof result["aside"] === "string") closed.add(result["aside"]);
  }
  for (const name of closed) opened.delete(name);
  return opened;
}

/** Commits without which the asides that the visit holds open could not be made again or merged: each one's base, and what calls in it came to. */
export function neededAside(steps: Iterable<readonly [string, Json]>): ReadonlySet<string> {
  const all = [...steps];
  const open = openAsides(all);
  const needed = new Set<string>();
  for (const [name, result] of all) {
    if (!isJsonObject(result)) continue;
    const { kind, base, commit, aside } = result;
    if (kind === "aside.opened" && open.has(name) && typeof base === "string") needed.add(base);
    const where = isJsonObject(aside) ? aside["name"] : undefined;
    if (typeof where === "string" && open.has(where) && typeof commit === "string") needed.add(commit);
  }
  return needed;
}

/**
 * Calls in asides that were under way begin anew where the run went back or was forked: their sessions remember what no files have any more, and the
 * aside is made again.
 */
export function forgetAsideCalls(visit: Visit): Visit {
  const { asides, ...rest } = visit;
  if (asides === undefined) return visit;
  const without = <T>(record: Readonly<Record<string, T>>): Readonly<Record<string, T>> =>
    Object.fromEntries(Object.entries(record).filter(([step]) => !Object.hasOwn(asides, step)));
  return {
    ...rest,
    ...(rest.running === undefined ? {} : { running: without(rest.running) }),
    ...(rest.sessions === undefined ? {} : { sessions: without(rest.sessions) }),
  };
}

/** The newest commit of an aside, as the finished calls in it tell: the one that no other began from. */
export function asideTip(
  steps: Iterable<readonly [string, Json]>,
  aside: { readonly name: string; readonly base: string },
): string {
  const next = new Map<string, string>();
  for (const [, result] of steps) {
    if (!isJsonObject(result) || !isJsonObject(result["aside"])) continue;
    const { commit, aside: where } = result;
    const { name, from } = where;
    if (name === aside.name && typeof from === "string" && typeof commit === "string" && commit !== from)
      next.set(from, commit);
  }
  let tip = aside.base;
  for (let after = next.get(tip); after !== undefined; after = next.get(tip)) {
    next.delete(tip);
    tip = after;
  }
  return tip;
}
