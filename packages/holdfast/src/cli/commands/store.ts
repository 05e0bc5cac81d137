/** The `store` command: copies runs between stores. */
import { DEFAULT_STALE_AFTER_MS, planLease } from "@holdfast/core/lease";
import { isEnded } from "@holdfast/core/run";
import { hideRemoved, readRunTombstone } from "@holdfast/core/run-statuses";
import { knownRun, leaseHeld, runNotFound } from "@holdfast/core/store";
import { ownerLiveness } from "@holdfast/core/store-sql/leases";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { resolvePlace, withoutPassword } from "@holdfast/postgres/store-url";
import { type OpenedStore, openStoreAt } from "../../open-store.ts";
import { readSubmission } from "../../worker/fleet-runs.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import type { Page } from "../output/page.ts";
import { RUN_COLUMN } from "../output/run-text.ts";
import { renderTable } from "../output/table.ts";
import { escapeText } from "../output/text.ts";
import { reportDatabase } from "../report-remotes.ts";
import { quoteWord } from "../shell.ts";

export const spec = {
  name: "store",
  summary: "copy runs between stores, such as to PostgreSQL",
  details: [
    "`copy` writes runs of the store FROM into the store TO. A store is a directory, such as .git/holdfast, or a postgres:// URL. Each run is written in one transaction, with its id, journal, checkpoints, tags and effects. Then the copy is read back, and every digest is compared.",
    "After a kill, run the same command again: runs that TO has already are left alone, and a shorter copy is extended. A run that a live process holds is left out and named, and the command ends with exit status 5; if you name such a run, nothing is copied. A run that went another way in TO is refused.",
    "Two more actions move the files of runs to and from the git remote of `files.remote`: `holdfast store push` and `holdfast store fetch`. Each has its own help.",
    "A submitted run stays in the queue of FROM, and its copy is in none: otherwise the workers of both would execute it. To move it, take it out with `holdfast queue --cancel RUN`, copy it, and submit it in TO.",
    "The original stays. From then on use one of the two: set HOLDFAST_STORE. Files are not copied: they are git objects of the repository, and `holdfast store push` sends them to a git remote. docs/postgres.md has the details.",
  ],
  operands: [
    { name: "ACTION", about: "copy", required: true, completes: "nothing", choices: ["copy", "push", "fetch"] },
    { name: "FROM", about: "the store to copy from", required: true, completes: "directory" },
    { name: "TO", about: "the store to copy to, which is created if needed", required: true, completes: "directory" },
    { name: "RUN", about: "only these runs; default: all of FROM", required: false, completes: "run", many: true },
  ],
  consent: "reads",
  flags: { "dry-run": { type: "boolean", about: "list the runs that would be copied, and write nothing" } },
  examples: [
    { line: "holdfast store copy .git/holdfast postgres://db.example/team", about: "copy every run to PostgreSQL" },
    { line: "holdfast store copy postgres://db.example/team .git/holdfast issue-7", about: "bring one run back" },
    { line: "holdfast store copy .git/holdfast ../backup --dry-run", about: "show what would be copied" },
  ],
  json: '{"from", "to", "dryRun", "runs": [{"run", "entries", "checkpoints", "result": "copied", "extended" or "same", "head"}], "held": [{"run", "why"}] runs that were left out because a process holds them}; with --dry-run without "result" and "head".',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const [, given = "", target = "", ...named] = input.operands;
  const source = resolvePlace(shell.cwd, given, "FROM");
  const destination = resolvePlace(shell.cwd, target, "TO");
  const onWait = reportDatabase(shell);
  const from = await openStoreAt(source, { create: false, readOnly: true, onWait });
  try {
    const { runs: plan, held, submitted } = await planCopy(from, named);
    const { location } = from.store;
    for (const id of submitted)
      shell.notify(
        `${id} stays in the queue of its store, and the copy is in none. To move it, first run: holdfast queue --cancel ${id} --store ${quoteWord(location)}. After the copy: holdfast submit ${id} --store ${quoteWord(withoutPassword(destination))}`,
      );
    if (input.on("dry-run"))
      return print(shell, { from: location, to: withoutPassword(destination), dryRun: true, runs: plan, held });
    const to = await openStoreAt(destination, { create: true, onWait });
    try {
      const copied: CopiedRun[] = [];
      for (const { run: id } of plan) {
        shell.signal.throwIfAborted();
        const copying = shell.finish(copyRun(from, to, id), { done: () => `${id} was copied` });
        const result = named.length > 0 ? await copying : await orHeld(id, copying);
        if ("why" in result) held.push(result);
        else copied.push(result);
        shell.notify(`${copied.length} of ${plan.length}: ${id}`);
      }
      return print(shell, { from: location, to: to.store.location, dryRun: false, runs: copied, held });
    } finally {
      await to.store.close();
    }
  } finally {
    await from.store.close();
  }
}

interface Copies {
  readonly from: string;
  readonly to: string;
  readonly dryRun: boolean;
  readonly runs: readonly (RunCopy | CopiedRun)[];
  readonly held: readonly HeldRun[];
}

/** A run that was left out because a process may be writing it. */
interface HeldRun {
  readonly run: string;
  readonly why: string;
}

function print(shell: Shell, copies: Copies): Exit {
  shell.print({ json: () => copies, text: (page) => copiesText(copies, page) });
  return copies.held.length === 0 ? "done" : "held";
}

function copiesText(copies: Copies, page: Page): string {
  const { from, runs, held } = copies;
  if (runs.length + held.length === 0) return `There is no run in ${escapeText(from)}.\n`;
  const left = held.map(({ run, why }) => `Not copied: ${run}. ${escapeText(why)}\n`);
  if (left.length > 0) left.push("Copy them when they have ended or are stopped: repeat the command.\n");
  return `${runs.length === 0 ? "" : copiedText(copies, page)}${left.join("")}`;
}

function copiedText({ from, to, dryRun, runs }: Copies, page: Page): string {
  const columns = [
    RUN_COLUMN,
    { title: "ENTRIES", align: "right" },
    { title: "CHECKPOINTS", align: "right" },
    { title: "RESULT", optional: true },
  ] as const;
  const rows = runs.map((one) =>
    [one.run, String(one.entries), String(one.checkpoints), "result" in one ? one.result : ""].map((text) => ({
      text,
    })),
  );
  const done = `${dryRun ? "Would copy" : "Verified"} ${runs.length} ${runs.length === 1 ? "run" : "runs"}`;
  return `${renderTable({ columns, rows }, page)}${done}, from ${escapeText(from)} to ${escapeText(to)}\n`;
}

interface RunCopy {
  readonly run: string;
  readonly entries: number;
  readonly checkpoints: number;
}

interface CopiedRun extends RunCopy {
  /** "extended": a shorter copy was there. "same": the other store has all of it. */
  readonly result: "copied" | "extended" | "same";
  /** Hash of the last journal entry, which covers the whole run, in both stores. */
  readonly head: string;
}

/**
 * The runs in the order of their creation; all of them if none is named. A run that a process may be writing is in `held`; if it was named,
 * LEASE_HELD is thrown. `submitted` runs are executed by the workers of the store: a copy in another queue would be executed twice.
 */
async function planCopy(
  from: OpenedStore,
  named: readonly string[],
): Promise<{ readonly runs: readonly RunCopy[]; readonly held: HeldRun[]; readonly submitted: readonly string[] }> {
  const store = hideRemoved(from.store);
  const summaries =
    named.length === 0
      ? (await store.listRuns()).toReversed()
      : await Promise.all([...new Set(named)].map((run) => knownRun(store, run)));
  const runs: RunCopy[] = [];
  const held: HeldRun[] = [];
  const submitted: string[] = [];
  for (const { id, entries, checkpoints, state } of summaries) {
    if ((await readRunTombstone(store, id)) !== undefined) throw runNotFound(id);
    const error = await heldError(from, id);
    if (error === null) runs.push({ run: id, entries, checkpoints });
    else if (named.length > 0) throw error;
    else held.push({ run: id, why: error.message });
    if (error === null && !isEnded(state) && (await readSubmission(store, id)) !== null) submitted.push(id);
  }
  return { runs, held, submitted };
}

/** LEASE_HELD if a process may be writing the run: if `resume` could not acquire its lease. */
async function heldError(opened: OpenedStore, run: string): Promise<HoldfastError | null> {
  const { store } = opened;
  const lease = await store.getLease(run);
  if (lease === undefined) return null;
  const plan = planLease({
    epoch: lease.epoch,
    held: lease,
    token: "",
    liveness: ownerLiveness(lease.owner, opened),
    now: await store.now(),
    staleAfterMs: DEFAULT_STALE_AFTER_MS,
  });
  return plan.kind === "refuse" ? leaseHeld(lease) : null;
}

/** A process may have acquired the run since it was planned. What was copied then is the beginning of the run, which a later copy extends. */
async function orHeld(run: string, copying: Promise<CopiedRun>): Promise<CopiedRun | HeldRun> {
  try {
    return await copying;
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    const grew = error.code === "CONFLICT" && error.data["now"] !== undefined;
    if (error.code !== "LEASE_HELD" && !grew) throw error;
    return { run, why: error.message };
  }
}

/** After a kill the same call continues: a run that is there already is the same. */
async function copyRun(from: OpenedStore, to: OpenedStore, run: string): Promise<CopiedRun> {
  if (from.store.id === to.store.id && from.directory === to.directory)
    throw usageError("Both stores are the same", "Name two different stores: directories or postgres:// URLs.");
  const held = await heldError(from, run);
  if (held !== null) throw held;
  const stored = await from.store.exportRun(run);
  const label = "holdfast store copy";
  const result = await to.store.importRun({ stored, label, first: null, copy: true }).catch((error: unknown) => {
    if (!(error instanceof HoldfastError) || error.code !== "RUN_EXISTS") throw error;
    throw new HoldfastError({
      code: "RUN_EXISTS",
      message: `The store ${to.store.location} has a run ${run} that went another way, or is another run`,
      hint: "Nothing was changed. Copy the run to a store that does not have it.",
      data: { run, location: to.store.location },
      cause: error,
    });
  });
  await compare(from, to, { run, head: stored.head, entries: stored.entries.length, result });
  const { checkpoints } = await knownRun(to.store, run);
  const copied = result === "imported" ? "copied" : result;
  return { run, entries: stored.entries.length, checkpoints, result: copied, head: stored.head };
}

/** Reads the copy back from the database, with every digest. The run must not have grown meanwhile. */
async function compare(
  from: OpenedStore,
  to: OpenedStore,
  copy: { readonly run: string; readonly head: string; readonly entries: number; readonly result: string },
): Promise<void> {
  const { run, head, entries } = copy;
  // What goes further than the original was checked when it was written.
  const isLonger = copy.result === "same" && (await knownRun(to.store, run)).entries > entries;
  for await (const event of to.store.verify({ run })) {
    if (event.kind === "problem")
      throw new HoldfastError({
        code: "STORE_CORRUPT",
        message: `The copy of ${run} in ${to.store.location} is damaged: ${event.problem.what}`,
        hint: "The original is unchanged. Check the disk of the other store.",
        data: { run, problem: event.problem },
      });
  }
  if (!isLonger && (await to.store.exportRun(run)).head !== head)
    throw new HoldfastError({
      code: "CONFLICT",
      message: `The run ${run} was continued in ${to.store.location} while it was copied`,
      hint: "Stop the process that executes it there, and copy it again.",
      data: { run },
    });
  const now = await knownRun(from.store, run);
  if (now.entries !== entries)
    throw new HoldfastError({
      code: "CONFLICT",
      message: `The run ${run} was continued in ${from.store.location} while it was copied: the copy ends with entry ${entries} of ${now.entries}`,
      hint: "Stop it, and run the same command again.",
      data: { run, entries, now: now.entries },
    });
}
