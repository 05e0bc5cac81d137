/** The `checkpoint` command: saves files and state now, or asks the process that holds the run to do so. */
import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import type { CheckpointSummary, Planes } from "@holdfast/core/checkpoint";
import type { GcReport } from "@holdfast/core/gc";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import type { Lease, LeaseOwner } from "@holdfast/core/lease";
import { createMasking } from "@holdfast/core/mask";
import type { RunHandle } from "@holdfast/core/run-handle";
import type { SaveParams, SavePlan } from "@holdfast/core/save";
import { leaseHeld } from "@holdfast/core/store";
import { type AuditFinding, auditJson } from "@holdfast/core/audit-json";
import type { CurrentFiles, Diff } from "@holdfast/core/workspace";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { byteText } from "@holdfast/core/store-size";
import type { Holdfast } from "../../holdfast.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { checkNewRunId, findRun as findKnownRun } from "../operands.ts";
import { type Page, type Style, paint } from "../output/page.ts";
import { countText } from "../output/quantities.ts";
import { type SkippedPath, skippedLine, skippedPaths, unfinishedRestoreText } from "../output/run-text.ts";
import { escapeText, truncate } from "../output/text.ts";
import { WAIT_MS, holderText, releaseAfter, runHeld, waitForRun } from "../run-holder.ts";
import { gcOutcome, gcSummary } from "./gc.ts";

export const spec = {
  name: "checkpoint",
  summary: "save files and state, so that you can go back to them",
  details: [
    "Saves the worktree (tracked, untracked and changed files) and the state of the run as one checkpoint. It does not touch your index, HEAD and stash. If there is no run yet, it creates one.",
    "If another process executes the run (`holdfast run` in another terminal), that process saves the checkpoint with all of its state, and this command waits for it. If the process ends meanwhile, this command saves the checkpoint. If it runs on another host or does not respond, nothing is changed (exit status 5).",
    'Large untracked files (see `holdfast config`), special files and nested git repositories are not saved; the output lists them. Ignored files are not saved either. The size after "added" is the growth of the store; the files are git objects, which git shares and packs.',
  ],
  operands: [
    {
      name: "RUN",
      about: "an existing run: its id or issue number; default the run of this worktree, which is created if needed",
      required: false,
      completes: "run",
    },
  ],
  consent: "saves",
  flags: {
    name: { type: "text", short: "m", value: "TEXT", about: "a name for the checkpoint" },
    run: {
      type: "text",
      value: "RUN",
      about: "the run to save into; an unknown id creates a run",
      completes: "run",
    },
    values: {
      type: "text",
      value: "FILE",
      about: 'state to save, as a JSON object ("-" reads stdin)',
      completes: "file",
    },
    "no-files": { type: "boolean", about: "save state only, not the worktree" },
    "dry-run": { type: "boolean", about: "show what would be saved, and save nothing" },
  },
  examples: [
    { line: 'holdfast checkpoint --name "before the big refactor"', about: "save everything under a name" },
    {
      line: 'holdfast checkpoint issue-42 --name "looks good so far"',
      about: "save a run that is running in another terminal",
    },
    { line: "holdfast checkpoint --run fix-login", about: "save into this run, or create it" },
    {
      line: "echo '{\"step\": 3}' | holdfast checkpoint --values -",
      about: "save a script's own state with the files",
    },
  ],
  json: '{"checkpoint": {...}, "started": true when the run is new, "skipped": [files left out], "nested": [repositories left out], "unfinishedRestore": "RUN@n" or null, "savedBy": {"label", "pid", "host"} of the process that was asked or null, "gc": {...} or null}; with --dry-run {"plan": {...} or null, "changes": [...], "started", "run", "asks": who would be asked or null, "skipped", "nested", "dryRun": true}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const given = await saveParams(input);
  checkNewRunId(input.text("run"));
  if (input.operand(0) !== undefined && input.text("run") !== undefined)
    throw usageError("Both RUN and --run were given", "Leave one of them out.");
  if (input.on("dry-run")) return dryRun(shell, input, given);
  // Read before anything is created: a broken config must stop the command with nothing done.
  const { settings } = await shell.config();
  const holdfast = await shell.open({ create: input.operand(0) === undefined });
  const params = given.name === undefined ? given : { ...given, name: createMasking().mask(given.name) };
  const found = await findRun(holdfast, input);
  const handle = found ?? (await createRun(shell, holdfast, input.text("run")));
  const asked = await askHolder(shell, handle, params);
  const { checkpoint, planes } = asked ?? (await save(shell, handle, params));
  const { unfinishedRestore } = await handle.summary();
  const gc = settings.gc.auto ? await sweep(shell, holdfast) : null;
  const saved = {
    checkpoint,
    started: found === undefined,
    skipped: planes.files?.skipped ?? [],
    nested: planes.files?.nested ?? [],
    unfinishedRestore,
    savedBy: asked?.by ?? null,
  };
  const noWorktree = planes.files === null && !input.on("no-files") && holdfast.workspaces?.bare === true;
  shell.print({
    json: () => ({ ...saved, gc }),
    text: (page) => savedText({ ...saved, planes, noWorktree, leftOut: skippedPaths(planes.files) }, page),
  });
  shell.notify(`Go back to it with: ${shell.talk.program} restore ${checkpoint.id}`);
  const size = await holdfast.sizeReport();
  if (size !== null) shell.notify(size.text);
  if (gc !== null && gc.dropped.length > 0) shell.notify(gcSummary(gc, shell.talk));
  return "done";
}

/** Saves and releases the run as one unit: after Ctrl+C all of it is done, or nothing. */
async function save(
  shell: Shell,
  handle: RunHandle,
  params: SaveParams,
): Promise<{ readonly checkpoint: CheckpointSummary; readonly planes: Planes }> {
  const work = releaseAfter(handle, async () => {
    const checkpoint = await handle.save(params);
    return { checkpoint, planes: (await handle.get(checkpoint.sequence)).planes };
  });
  return await shell.finish(work, { done: ({ checkpoint }) => `${checkpoint.id} was saved` });
}

async function dryRun(shell: Shell, input: Input<(typeof spec)["flags"]>, params: SaveParams): Promise<Exit> {
  await shell.config();
  const holdfast = await shell.openIfThere({ writes: false });
  const handle = holdfast === undefined ? undefined : await findRun(holdfast, input);
  const plan = (await handle?.planSave(params)) ?? null;
  const files = plan === null ? await firstFiles(shell, holdfast, params) : plan.files;
  const changes = holdfast === undefined || plan === null ? [] : await changesOf(holdfast, plan);
  const holder = await handle?.holder();
  const asks = holder === undefined || holder.alive === "dead" ? null : holderOf(holder.lease.owner);
  const shown = { plan, changes, started: handle === undefined, run: handle?.id ?? input.text("run") ?? null, asks };
  const { skipped = [], nested = [] } = files ?? {};
  shell.print({
    json: () => ({ ...shown, skipped, nested, dryRun: true }),
    text: (page) => planText({ ...shown, leftOut: skippedPaths({ skipped, nested }) }, page),
  });
  return "done";
}

/** For a run that does not exist yet. If there is no store either, uses one in memory. */
async function firstFiles(
  shell: Shell,
  holdfast: Holdfast | undefined,
  params: SaveParams,
): Promise<CurrentFiles | null> {
  if (params.files === false) return null;
  return await (holdfast ?? (await shell.open({ create: false, pretend: true }))).filesHere();
}

/** The changes since the newest checkpoint; empty if there is none, or if it holds no files. */
async function changesOf(holdfast: Holdfast, plan: SavePlan): Promise<Diff["files"]> {
  if (plan.files?.changedSinceLast !== true) return [];
  const [newest] = await holdfast.store.listCheckpoints({ run: plan.run, limit: 1 });
  const from = newest?.tree ?? null;
  if (from === null || holdfast.workspaces === null) return [];
  return (await holdfast.workspaces.diff({ from, to: plan.files.tree, format: "names" })).files;
}

async function saveParams(input: Input<(typeof spec)["flags"]>): Promise<SaveParams> {
  const name = input.text("name");
  const file = input.text("values");
  if (name?.trim() === "") {
    throw usageError("--name is empty", 'Give it a name such as --name "before the refactor", or leave the flag out.');
  }
  return {
    trigger: "manual",
    ...(name === undefined ? {} : { name }),
    ...(file === undefined ? {} : { values: await readValues(file) }),
    ...(input.on("no-files") ? { files: false } : {}),
  };
}

/** undefined: the run does not exist yet, and a checkpoint would create it. Without a name: the run of this worktree. */
async function findRun(holdfast: Holdfast, input: Input<(typeof spec)["flags"]>): Promise<RunHandle | undefined> {
  const typed = input.operand(0);
  if (typed !== undefined) return await holdfast.run((await findKnownRun(holdfast, typed)).id);
  const id = input.text("run");
  if (id === undefined) return holdfast.runHere();
  try {
    return await holdfast.run(id);
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "RUN_NOT_FOUND") return undefined;
    throw error;
  }
}

async function createRun(shell: Shell, holdfast: Holdfast, id: string | undefined): Promise<RunHandle> {
  const creating = holdfast.createRun({ workspace: "here", ...(id === undefined ? {} : { id }) });
  return await shell.finish(creating, { done: (handle) => `run ${handle.id} was created` });
}

/** The checkpoint is safe by now, so a failing clean-up is only a note. After Ctrl+C the clean-up does not start. */
async function sweep(shell: Shell, holdfast: Holdfast): Promise<GcReport | null> {
  if (shell.signal.aborted) return null;
  try {
    const cleaning = holdfast.autoGc();
    return await shell.finish(cleaning, { done: (report) => (report === null ? null : gcOutcome(report)) });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    shell.notify(`The daily clean-up failed (${why}); try: ${shell.talk.program} gc --dry-run`);
    return null;
  }
}

interface SavedByHolder {
  readonly checkpoint: CheckpointSummary;
  readonly planes: Planes;
  readonly by: Holder;
}

/** The public part of a lease owner, for display and for programs that stop it. The token that proves ownership is left out. */
type Holder = Pick<LeaseOwner, "label" | "pid" | "host">;

function holderOf({ label, pid, host }: LeaseOwner): Holder {
  return { label, pid, host };
}

/** Asks the process that executes the run for a checkpoint. null: there is none, and the caller can save. */
async function askHolder(shell: Shell, handle: RunHandle, params: SaveParams): Promise<SavedByHolder | null> {
  const holder = await handle.holder();
  if (holder === undefined || holder.alive === "dead") return null;
  // Values and `files: false` exist only in this process, so the holder cannot save them. A brief holder releases the
  // run soon.
  if (params.values !== undefined || params.files === false) return await waitForTurn(shell, handle, holder.lease);
  const asked = await handle.ask({
    name: params.name ?? null,
    signal: shell.signal,
    patienceMs: WAIT_MS,
    onWaiting: (by) => shell.notify(`Waiting for ${escapeText(handle.id)}: held by ${holderText(by.owner)} …`),
  });
  switch (asked.kind) {
    case "free":
      return null;
    case "saved": {
      const { planes } = await handle.get(asked.sequence);
      const [checkpoint] = await handle.list({ before: asked.sequence + 1, limit: 1 });
      if (checkpoint === undefined) throw new TypeError(`checkpoint ${asked.sequence} has no summary`);
      return { checkpoint, planes, by: holderOf(asked.by.owner) };
    }
    case "elsewhere":
      throw elsewhere(handle.id, asked.by);
    case "silent":
      throw runHeld(leaseHeld(asked.by));
    case "failed":
      throw new HoldfastError({
        code: "IO_FAILED",
        message: `${holderText(asked.by.owner)} executes run ${handle.id} and could not save the checkpoint`,
        hint: "Its terminal shows the reason. Earlier checkpoints are safe.",
        data: { run: handle.id },
      });
  }
}

async function waitForTurn(shell: Shell, handle: RunHandle, lease: Lease): Promise<null> {
  try {
    await waitForRun(shell, handle);
    return null;
  } catch (error) {
    throw error instanceof HoldfastError && error.code === "LEASE_HELD" ? notOurs(handle.id, lease) : error;
  }
}

function elsewhere(run: string, { owner }: Lease): HoldfastError {
  return new HoldfastError({
    code: "LEASE_HELD",
    message: `Run ${run} is held by ${owner.label} (pid ${owner.pid}) on ${owner.host}, which this host cannot reach`,
    hint: `Run \`holdfast checkpoint ${run}\` on ${owner.host}.`,
    retry: "later",
    data: { run, owner: { ...owner } },
  });
}

function notOurs(run: string, { owner }: Lease): HoldfastError {
  return new HoldfastError({
    code: "LEASE_HELD",
    message: `Run ${run} is executed by ${owner.label} (pid ${owner.pid} on ${owner.host}), which holds its current state`,
    hint: "Leave --values and --no-files out: that process then saves a complete checkpoint.",
    retry: "later",
    data: { run },
  });
}

/** Reads the state from a file, or from stdin for "-": one JSON object. */
async function readValues(file: string): Promise<JsonObject> {
  const source = file === "-" ? "stdin" : file;
  const values = parse(await read(file, source), source);
  if (isJsonObject(values)) return values;
  throw usageError(`The JSON of ${source} is not an object`, 'Give an object such as {"step": 3}.');
}

async function read(file: string, source: string): Promise<string> {
  try {
    return await (file === "-" ? text(process.stdin) : readFile(file, "utf8"));
  } catch (cause) {
    throw new HoldfastError({
      code: "USAGE",
      message: `Cannot read ${source}`,
      hint: "Use --values FILE, or --values - for stdin.",
      cause,
    });
  }
}

/**
 * JSON.parse alone keeps the last of two equal keys and rounds long integers. State that cannot be stored exactly is
 * rejected.
 */
function parse(content: string, source: string): Json {
  const parsed = parseSyntax(content, source);
  const finding = audit(content);
  if (finding === null) return parsed;
  throw usageError(
    `The JSON of ${source} cannot be stored exactly, at ${finding.path} (line ${finding.line}): ${finding.why}`,
    "Write a long integer as a string, and every key once.",
    { path: finding.path, line: finding.line },
  );
}

function audit(content: string): AuditFinding | null {
  try {
    return auditJson(content);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return { path: "/", line: 1, why: "it is nested too deeply" };
  }
}

function parseSyntax(content: string, source: string): Json {
  try {
    const parsed: Json = JSON.parse(content);
    return parsed;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new HoldfastError({
      code: "NOT_JSON",
      message: `${source} is not JSON: ${why}`,
      hint: 'Give an object such as {"step": 3}.',
      cause,
    });
  }
}

interface Saved {
  readonly checkpoint: CheckpointSummary;
  readonly planes: Planes;
  readonly started: boolean;
  readonly leftOut: readonly SkippedPath[];
  readonly unfinishedRestore: string | null;
  /** The process that saved the checkpoint; null: this process did. */
  readonly savedBy: Holder | null;
  /** The caller wanted files, but the repository is bare. */
  readonly noWorktree: boolean;
}

export function savedText(saved: Saved, page: Page): string {
  const { checkpoint, leftOut, unfinishedRestore } = saved;
  const name = checkpoint.name === null ? "" : ` "${escapeText(checkpoint.name)}"`;
  const started = saved.started ? `Created run ${paint(page, "bold", escapeText(checkpoint.run))}.\n` : "";
  const bare = saved.noWorktree ? "There is no worktree here (a bare repository), so only state is saved.\n" : "";
  const line = `Saved ${paint(page, "bold", escapeText(checkpoint.id))}${name} (${planesText(saved.planes)}; ${byteText(checkpoint.size.added)} added to the store)\n`;
  const by = saved.savedBy === null ? "" : `Saved by ${holderText(saved.savedBy)}, which executes the run.\n`;
  const unfinished = unfinishedRestoreText({ id: checkpoint.run, unfinishedRestore }, page);
  return `${started}${bare}${line}${by}${notSaved(leftOut, page)}${unfinished}`;
}

function notSaved(leftOut: readonly SkippedPath[], page: Page): string {
  const lines = leftOut.slice(0, SHOWN).map((left) => skippedLine(left, "not saved", page));
  return lines.join("") + moreText(leftOut.length - lines.length);
}

function planesText(planes: Planes): string {
  if (planes.files === null) return "state only";
  return hasState(planes) ? "files and state" : "files";
}

/** Whether the run itself stored any state. Every checkpoint has these planes, and empty ones are not worth mentioning. */
function hasState({ context, position, conversation, extensions }: Planes): boolean {
  const kept = [context.values, context.tokens, position.attempts, extensions];
  return kept.some((values) => Object.keys(values).length > 0) || position.stage !== "none" || conversation !== null;
}

interface ShownPlan {
  readonly plan: SavePlan | null;
  readonly changes: Diff["files"];
  readonly started: boolean;
  readonly run: string | null;
  /** The process that would be asked for the checkpoint; null: no process holds the run now. */
  readonly asks: Holder | null;
  readonly leftOut: readonly SkippedPath[];
}

function planText(shown: ShownPlan, page: Page): string {
  const { plan, changes } = shown;
  if (plan === null) {
    const named = shown.run === null ? "a new run" : `the new run ${paint(page, "bold", escapeText(shown.run))}`;
    return `Would start ${named}; its first checkpoint has the files as they are now.\n${notSaved(shown.leftOut, page)}`;
  }
  const id = paint(page, "bold", escapeText(`${plan.run}@${plan.sequence}`));
  const lines = changes.slice(0, SHOWN).map(({ path, status }) => {
    const { mark, style } = MARKS[status];
    return `  ${paint(page, style, mark)} ${truncate(escapeText(path), page.width - 4)}\n`;
  });
  const verb = shown.asks === null ? "Would save" : `Would ask ${holderText(shown.asks)} for`;
  return `${verb} ${id}: ${filesText(plan, changes.length)}\n${lines.join("")}${moreText(changes.length - lines.length)}${notSaved(shown.leftOut, page)}`;
}

const SHOWN = 20;
const MARKS: Readonly<Record<Diff["files"][number]["status"], { readonly mark: string; readonly style: Style }>> = {
  added: { mark: "A", style: "green" },
  modified: { mark: "M", style: "yellow" },
  deleted: { mark: "D", style: "red" },
  renamed: { mark: "R", style: "cyan" },
  type_changed: { mark: "T", style: "yellow" },
};

function filesText(plan: SavePlan, changes: number): string {
  if (plan.files === null) return "state only";
  if (!plan.files.changedSinceLast) return "files as in the last checkpoint";
  return changes === 0 ? "files" : `${countText(changes, "file")} changed since the last checkpoint`;
}

function moreText(hidden: number): string {
  return hidden > 0 ? `  … and ${hidden} more (all with --json)\n` : "";
}
