/** The page of one run: why it stopped, what waits for the user, what may be done, its journal, checkpoints, effects and logs. */
import { open } from "node:fs/promises";
import type { Effect } from "@holdfast/core/effects";
import type { JournalEntry } from "@holdfast/core/journal";
import type { Json } from "@holdfast/core/json";
import { isJsonObject, sha256 } from "@holdfast/core/json";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import type {
  Action,
  CheckpointsPage,
  EffectRow,
  EntriesPage,
  Entry,
  EntryHeader,
  Evidence,
  Inbox,
  InboxItem,
  InboxOption,
  LogRow,
  ReasonCard,
  RunPage,
  RunRow,
  TextRange,
  Timeline,
} from "@holdfast/dashboard/api";
import { HoldfastError } from "@holdfast/platform/error";
import { entrySummary } from "../cli/commands/events.ts";
import { readGraph } from "../run-status.ts";
import { allowedActions, commandText } from "./actions.ts";
import { EVERY_RUN, type OpenRepository, type Repositories, readRuns } from "./repositories.ts";
import type { OpenFinding } from "./plan-text.ts";
import { link } from "./run-rows.ts";
import type { StoryReader, Undoable } from "./run-story.ts";

export async function readTimeline(opened: OpenRepository, id: string, now: number): Promise<Timeline> {
  const { run, status } = await opened.holdfast.runWithStatus(id);
  const { timeline } = await opened.read(run);
  const crashedAt = status.kind === "crashed" ? status.holder.heartbeatAt : null;
  return timeline.timeline({ now, live: status.kind === "running", crashedAt });
}

/** What a plan found that the user must accept before a run continues. */
export type KnownFindings = (row: RunRow) => readonly OpenFinding[];

export async function readRunPage(
  opened: OpenRepository,
  id: string,
  { now, findings }: { readonly now: number; readonly findings: KnownFindings },
): Promise<RunPage> {
  const { holdfast } = opened;
  const found = await holdfast.runWithStatus(id);
  const { run, status } = found;
  const row = await opened.row(found, now);
  const { story } = await opened.read(run);
  const handle = await holdfast.run(id);
  const [workspace, graph, { checkpoint }] = await Promise.all([
    handle.workspace(),
    readGraph(handle, { now, status }),
    handle.newestWhole(),
  ]);
  const issue = checkpoint?.planes.inputs.issue ?? null;
  const body = findings(row).find(({ kind }) => kind === "issue_body_changed")?.actual;
  return {
    asOf: new Date(now).toISOString(),
    row,
    worktree: workspace?.root ?? null,
    reasonCard: reasonCard(row, story),
    inbox: await readItem(opened, row, findings(row)),
    undo: undoOf(row.key, story.undoable, found),
    actions: allowedActions({ key: row.key, run, status }),
    graph: graph === null ? null : (graph.picture as object as Json),
    notes: story.notes.slice(-MAX_NOTES),
    issueText: issue === null ? null : { before: issue.body, now: typeof body === "string" ? body : null },
    command: `holdfast status ${id}`,
  };
}

const MAX_NOTES = 20;

/** Why it stopped, with what to do next; null while it works, and when it is done. */
function reasonCard(row: RunRow, { failure }: Pick<StoryReader, "failure">): ReasonCard | null {
  const { status } = row.run;
  if (status.kind === "running" || status.kind === "queued" || status.kind === "done" || status.kind === "saved")
    return null;
  return {
    cause: row.reason ?? row.statusWord,
    why: failure === null || failure.why === row.reason ? null : failure.why,
    tail: failure?.tail ?? [],
    commands: nextCommands(row.run),
  };
}

function nextCommands({ id, status }: RunRow["run"]): readonly string[] {
  switch (status.kind) {
    case "waiting":
      if (status.question === null) return [`holdfast resume ${id}`];
      return status.question.options.map((option) => commandText([["approve", id, option]]));
    case "paused":
    case "crashed":
      return [`holdfast resume ${id}`];
    case "failed":
      return [`holdfast events ${id}`, `holdfast restore ${id} --smart --dry-run`];
    default:
      return [`holdfast list ${id}`];
  }
}

/** A strip that stays until the run continues. null: nothing to undo, or a process works on the run. */
function undoOf(key: string, undoable: Undoable | null, { status }: RunWithStatus): RunPage["undo"] {
  if (undoable === null || status.kind === "running" || status.kind === "queued") return null;
  const { text } = undoable;
  if (undoable.kind === "tag")
    return { text, action: { kind: "untag", run: key, sequence: undoable.sequence, name: undoable.name } };
  return { text, action: { kind: "restore", run: key, sequence: undoable.before, paths: null } };
}

/** What waits for the user; null: nothing does. */
function inboxItem(params: {
  readonly row: RunRow;
  readonly story: Pick<StoryReader, "failure">;
  readonly effects: readonly Effect[];
  /** Whether a limit of iterations ended it. */
  readonly limited: boolean;
  readonly findings: readonly OpenFinding[];
}): InboxItem | null {
  const { row, story, effects, findings } = params;
  const { status } = row.run;
  const run = row.key;
  const failure = failureEvidence(story);
  const abort: InboxOption = {
    label: "Abort the run",
    about: "It ends for good. Branch, worktree and checkpoints stay.",
    risky: true,
    action: { kind: "abort", run },
  };
  const resume: InboxOption = {
    label: "Resume",
    about: "Checks what changed in the meantime, then continues in the background.",
    risky: false,
    action: { kind: "resume", run, accept: [] },
  };
  const item = (
    kind: InboxItem["kind"],
    title: string,
    evidence: readonly Evidence[],
    options: readonly InboxOption[],
  ) => ({ row, kind, title, evidence, options }) satisfies InboxItem;
  if (row.damaged.length > 0 || row.run.unfinishedRestore !== null)
    return item("damaged", row.reason ?? "Checkpoints cannot be read", [], restoreOptions(row));
  if (findings.length > 0) {
    const accept = [...new Set(findings.map(({ kind }) => kind))];
    const about = "The changes are accepted, and the run continues in the background.";
    const take: InboxOption = {
      label: "Accept and resume",
      about,
      risky: true,
      action: { kind: "resume", run, accept },
    };
    const title = findings.length === 1 ? findings[0]?.summary : `${findings.length} things changed since it stopped`;
    return item("findings", title ?? "", findings.map(findingEvidence), [take, abort]);
  }
  switch (status.kind) {
    case "waiting": {
      if (status.for === "budget") return item("budget", status.reason, failure, [...raiseOptions(row), abort]);
      const unknown = effects.filter(({ state }) => state.kind === "unknown");
      const question = status.question ?? { name: "continue", question: "Continue the run?", options: ["yes"] };
      const evidence = [
        ...(status.reason === question.question ? [] : [textEvidence("Why", status.reason)]),
        ...unknown.map(({ kind, target, state }) =>
          textEvidence(`${kind} on ${target}`, state.kind === "unknown" ? state.reason : ""),
        ),
        ...failure,
      ];
      const options = question.options.map((answer) => answerOption(run, question.name, answer));
      return item(unknown.length > 0 ? "unknown_effect" : "question", question.question, evidence, [...options, abort]);
    }
    case "crashed":
      return item("crashed", row.reason ?? "Its process died", failure, [resume, abort]);
    case "failed":
      return item("failed", status.reason === "" ? "It failed" : status.reason, failure, [
        ...(params.limited ? [iterationsOption(row)] : []),
        ...restoreOptions(row),
      ]);
    default:
      return null;
  }
}

function answerOption(run: string, question: string, answer: string): InboxOption {
  const isStop = /^(?:stop|abort|no|give.?up|cancel)\b/i.test(answer);
  return {
    label: answer,
    about: isStop ? "The run stops here; its work is saved." : "The answer is recorded, and the run continues.",
    risky: isStop,
    action: { kind: "answer", run, question, answer, note: null, resume: true },
  };
}

/** Twice the limit that is reached, which is never chosen without the user. */
function raiseOptions({ key, budget }: RunRow): readonly InboxOption[] {
  return (["microUsd", "tokens", "milliseconds"] as const).flatMap((limit): readonly InboxOption[] => {
    const most = budget?.limit[limit] ?? null;
    const used = (budget?.spent[limit] ?? 0) + (budget?.reserved[limit] ?? 0);
    if (most === null || (used < most && budget?.spent[limit] !== null)) return [];
    const to = Math.max(most * 2, Math.ceil(used) + 1);
    const about = "The run continues in the background with the new limit.";
    return [{ label: RAISE[limit](to), about, risky: true, action: { kind: "raise", run: key, limit, to } }];
  });
}

function iterationsOption({ key, run: { iteration } }: RunRow): InboxOption {
  const to = Math.max(2, iteration * 2);
  const about = "The run continues in the background with the new limit.";
  const action: Action = { kind: "raise", run: key, limit: "iterations", to };
  return { label: `Allow ${to} iterations`, about, risky: true, action };
}

const RAISE = {
  microUsd: (to: number) => `Raise the limit to $${(to / 1e6).toFixed(2)}`,
  tokens: (to: number) => `Raise the limit to ${to} tokens`,
  milliseconds: (to: number) => `Raise the limit to ${Math.ceil(to / 60_000)} minutes`,
} as const;

/** The newest checkpoint first: its plan says whether it helps. */
function restoreOptions({ key, run }: RunRow): readonly InboxOption[] {
  if (run.latest === null) return [];
  const { sequence } = run.latest;
  const about = `Shows what going back to @${sequence} would change. Nothing is lost: the present files are saved first.`;
  const action: Action = { kind: "restore", run: key, sequence, paths: null };
  return [{ label: `Restore @${sequence}`, about, risky: true, action }];
}

function failureEvidence({ failure }: Pick<StoryReader, "failure">): readonly Evidence[] {
  if (failure === null) return [];
  const why: Evidence = textEvidence(failure.name, failure.why);
  return failure.tail.length === 0 ? [why] : [why, { title: "Its last lines", kind: "output", lines: failure.tail }];
}

function findingEvidence({ summary, diff }: OpenFinding): Evidence {
  return diff === "" ? textEvidence("Changed", summary) : { title: summary, kind: "diff", lines: diff.split("\n") };
}

function textEvidence(title: string, text: string): Evidence {
  return { title, kind: "text", lines: text.split("\n") };
}

async function readItem(
  opened: OpenRepository,
  row: RunRow,
  findings: readonly OpenFinding[],
): Promise<InboxItem | null> {
  if (row.group !== "you" && findings.length === 0) return null;
  const { id, status } = row.run;
  const { holdfast } = opened;
  // A damaged run is in the inbox for that reason.
  const { story } = await opened.read(row.run).catch(() => ({ story: { failure: null } }));
  const effects = await holdfast.store.listEffects(id).catch(() => []);
  const limited = status.kind === "failed" && (await holdfast.status(id).catch(() => null))?.raise != null;
  return inboxItem({ row, story, effects, limited, findings });
}

export async function readInbox(repositories: Repositories, findings: KnownFindings): Promise<Inbox> {
  const { asOf, rows, problems } = await readRuns(repositories, { ...EVERY_RUN, limit: 0 });
  const items: InboxItem[] = [];
  for (const row of rows) {
    const known = findings(row);
    if (row.group !== "you" && known.length === 0) continue;
    const item = await readItem(await repositories.open(row.repository), row, known);
    if (item !== null) items.push(item);
  }
  return { asOf, items: items.toSorted((a, b) => (a.row.updatedAt < b.row.updatedAt ? -1 : 1)), problems };
}

export function headerOf({ entry, kind, at, epoch, body }: JournalEntry): EntryHeader {
  return { entry, kind, at, epoch, text: entrySummary({ kind, body }).slice(0, MAX_TEXT) };
}

const MAX_TEXT = 400;

/** A page of headers: after an entry forwards, or before an entry, newest first in time but in journal order in the page. */
export async function readEntries(
  opened: OpenRepository,
  run: string,
  page: { readonly after: number | null; readonly before: number | null; readonly limit: number },
): Promise<EntriesPage> {
  const { entries: total } = await (await opened.holdfast.run(run)).summary();
  const end = page.before === null ? total + 1 : Math.min(page.before, total + 1);
  const after = page.after ?? Math.max(0, end - 1 - page.limit);
  const limit = page.after === null ? end - 1 - after : page.limit;
  const entries: EntryHeader[] = [];
  if (limit > 0)
    for await (const entry of opened.holdfast.store.readJournal({ run, after, limit })) entries.push(headerOf(entry));
  const last = entries.at(-1)?.entry ?? after;
  const next = page.after === null ? (after > 0 ? after + 1 : null) : last < total ? last : null;
  return { entries, next };
}

export async function readEntry(opened: OpenRepository, run: string, number: number): Promise<Entry> {
  for await (const entry of opened.holdfast.store.readJournal({ run, after: number - 1, limit: 1 }))
    return { ...headerOf(entry), body: entry.body };
  throw new HoldfastError({ code: "RUN_NOT_FOUND", message: `Run ${run} has no journal entry ${number}` });
}

export async function readCheckpoints(
  opened: OpenRepository,
  run: string,
  page: { readonly before: number | null; readonly limit: number },
): Promise<CheckpointsPage> {
  const handle = await opened.holdfast.run(run);
  const before = page.before === null ? {} : { before: page.before };
  const found = await handle.list({ ...before, limit: page.limit + 1 });
  const checkpoints = found.slice(0, page.limit);
  return { checkpoints, next: found.length > page.limit ? (checkpoints.at(-1)?.sequence ?? null) : null };
}

export function effectRow({ key, kind, target, state }: Effect): EffectRow {
  const receipt = "receipt" in state ? state.receipt : null;
  const url = isJsonObject(receipt) && typeof receipt["url"] === "string" ? receipt["url"] : null;
  const shown = state.kind === "undoing" ? "done" : state.kind;
  const why = "reason" in state ? `: ${state.reason}` : "";
  return {
    key,
    kind,
    at: state.at,
    state: shown,
    text: `${kind.replaceAll("_", " ")} on ${target}${why}`,
    receipt,
    link: url === null ? null : link(url, url),
  };
}

export async function readEffects(opened: OpenRepository, run: string): Promise<readonly EffectRow[]> {
  await opened.holdfast.run(run);
  return (await opened.holdfast.store.listEffects(run)).map(effectRow);
}

export async function readLogs(opened: OpenRepository, run: string): Promise<readonly LogRow[]> {
  await opened.holdfast.run(run);
  const files = await opened.holdfast.logs.list(run);
  return files.map(({ path, step, stageAttempt, bytes, modifiedAt }) => ({
    number: logNumber(path),
    step,
    stageAttempt,
    bytes,
    modifiedAt,
  }));
}

/** Stays the same while other logs come and go, so that a page never joins parts of two logs. */
function logNumber(path: string): number {
  return Number.parseInt(sha256(path).slice(0, 11), 16) + 1;
}

/** A part of a log, by its number: a request never names a file. A part ends at a whole character. */
export async function readLog(
  opened: OpenRepository,
  run: string,
  part: { readonly number: number; readonly offset: number; readonly limit: number },
): Promise<TextRange> {
  await opened.holdfast.run(run);
  const file = (await opened.holdfast.logs.list(run)).find(({ path }) => logNumber(path) === part.number);
  if (file === undefined)
    throw new HoldfastError({ code: "RUN_NOT_FOUND", message: `Run ${run} has no log ${part.number}` });
  await using handle = await open(file.path, "r");
  const { size } = await handle.stat();
  const offset = part.offset < 0 ? Math.max(0, size + part.offset) : Math.min(part.offset, size);
  const buffer = Buffer.alloc(Math.min(part.limit, size - offset));
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, offset);
  return rangeOf(buffer.subarray(0, bytesRead), offset, size);
}

/** Cuts bytes that are the beginning or the end of a character at the edges of the part. */
export function rangeOf(bytes: Buffer, offset: number, size: number): TextRange {
  let start = 0;
  if (offset > 0) while (start < 3 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start += 1;
  let end = bytes.length;
  if (offset + end < size) {
    let back = 1;
    while (back < 4 && back < end && ((bytes[end - back] ?? 0) & 0xc0) === 0x80) back += 1;
    const lead = bytes[end - back] ?? 0;
    const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (length > back) end -= back;
  }
  const text = bytes.subarray(start, Math.max(start, end)).toString("utf8");
  return { offset: offset + start, text, next: offset + Math.max(start, end), bytes: size };
}
