/** The page of one run: why it stopped, what waits for the user, what may be done, its journal, checkpoints, effects and logs. */
import { open } from "node:fs/promises";
import type { Effect, PlacedEffect } from "@holdfast/core/effects";
import type { JournalEntry } from "@holdfast/core/journal";
import { isJsonObject, sha256 } from "@holdfast/core/json";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import type { RunStatus } from "@holdfast/core/status";
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
import { isOrphanId } from "@holdfast/core/run";
import { HoldfastError } from "@holdfast/platform/error";
import { entrySummary } from "../cli/commands/events.ts";
import { readGraph } from "../run-status.ts";
import { allowedActions, commandText, restartAction, restartLabel } from "./actions.ts";
import {
  EVERY_RUN,
  type Ending,
  FIRST_MS,
  NOT_ENDED,
  type OpenRepository,
  type Repositories,
  readRuns,
} from "./repositories.ts";
import { answerMeaning } from "./answer-meanings.ts";
import { type OpenFinding, isStop } from "./plan-text.ts";
import { hasRun, link } from "./run-rows.ts";
import type { StoryReader, Undoable } from "./run-story.ts";
import { readTeam } from "./team.ts";

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
  const end = await opened.ending(found);
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
    reasonCard: reasonCard(row, story, end, (argv) => commandText(opened.named, argv)),
    inbox: await readItem(opened, row, findings(row)),
    undo: undoOf(row.key, story.undoable, found),
    actions: allowedActions({ key: row.key, run, status, restart: end.restart }),
    graph: graph?.picture ?? null,
    team: await readTeam(handle, checkpoint),
    notes: story.notes.slice(-MAX_NOTES),
    issueText:
      issue === null ? null : { before: ownText(issue.body), now: typeof body === "string" ? ownText(body) : null },
    command: commandText(opened.named, ["status", id]),
  };
}

const MAX_NOTES = 20;

/** Without the mark by which Holdfast finds an issue again that it filed. */
function ownText(body: string): string {
  return body.replace(/\s*<!-- holdfast:[^>]*-->\s*$/, "\n");
}

/** Why it stopped, with what to do next; null while it works, and when it is done and at its end. */
function reasonCard(
  row: RunRow,
  { failure }: Pick<StoryReader, "failure">,
  end: Ending,
  command: (argv: readonly string[]) => string,
): ReasonCard | null {
  const { status } = row.run;
  if (status.kind === "queued") return queuedCard(row, status, command);
  if (status.kind === "running" && !status.hostKnown) return awayCard(row, status.holder.host, command);
  if (status.kind === "running" || status.kind === "saved") return null;
  if (status.kind === "done" && row.restored === null) return null;
  const shown = failure !== null && isCause(status) ? failure : null;
  return {
    title: hasRun(row.run, status) ? "Why it stopped" : "Why it waits",
    cause:
      row.reason ??
      (status.kind === "paused" ? "It was stopped. Nothing continues it until you resume it." : row.statusWord),
    why: shown === null || shown.why === row.reason ? null : shown.why,
    tail: shown?.tail ?? [],
    commands: nextCommands(row.run, end).map(command),
  };
}

/** A process on another machine is out of reach for a signal of the operating system: these commands reach it through the store. */
function awayCard({ run: { id } }: RunRow, host: string, command: (argv: readonly string[]) => string): ReasonCard {
  return {
    title: "Where it runs",
    cause: `A process on ${host} works on it.`,
    why: "It reads the first of these commands from the store. The second takes a submitted run out of the queue. The third is for a machine that is away.",
    tail: [],
    commands: [
      ["stop", id, "--after-step"],
      ["queue", "--cancel", id],
      ["take", id],
    ].map(command),
  };
}

function queuedCard(
  { run: { id }, reason }: RunRow,
  { holder }: Extract<RunStatus, { readonly kind: "queued" }>,
  command: (argv: readonly string[]) => string,
): ReasonCard | null {
  if (holder !== null) return null;
  return {
    title: "Why it waits",
    cause: reason ?? "It waits for a worker.",
    why: "`holdfast queue` shows its place and what it lacks. Resume does not wait for that: it executes the run here, outside the queue.",
    tail: [],
    commands: [["queue"], ["queue", "--cancel", id], ["resume", id]].map(command),
  };
}

/** Whether the last failing check or call is why the run has this status. A crash and most questions have another cause. */
function isCause(status: RunStatus): boolean {
  if (status.kind === "waiting") return status.question !== null && ABOUT_FAILURE.test(status.question.name);
  return status.kind === "failed" && !status.limit;
}

/** Questions of the built-in workflows that a failing check leads to. */
const ABOUT_FAILURE = /^(?:stuck|criterion-cannot-run|base-gate-fails-\d+)$/;

/** The commands that do what the card offers. */
function nextCommands({ id, status }: RunRow["run"], { restart, raise }: Ending): readonly (readonly string[])[] {
  switch (status.kind) {
    case "waiting":
      // The limit is in the options.
      if (status.for === "budget") return [];
      if (status.question === null) return [["resume", id]];
      return status.question.options.map((option) => ["approve", id, option]);
    case "paused":
    case "crashed":
      return [["resume", id]];
    case "failed":
    case "aborted":
    case "done":
      if (isOrphanId(id))
        return [
          ["fork", `${id}@1`],
          ["rm", id],
        ];
      return [
        ...(raise === null ? [] : [["resume", id, `--${raise}`, "N"]]),
        ...(restart === null ? [] : [["resume", `${id}@${restart}`, "--force"]]),
      ];
    default:
      return [["list", id]];
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
  readonly end: Ending;
  /** Whether `resume` may continue it. */
  readonly resumes: boolean;
  readonly findings: readonly OpenFinding[];
}): InboxItem | null {
  const { row, story, effects, findings } = params;
  const { status } = row.run;
  const run = row.key;
  const failure = isCause(status) ? failureEvidence(story, row.reason ?? "") : [];
  const abort: InboxOption = {
    label: "Abort the run",
    about: "It ends. Branch, worktree and checkpoints stay, and a restart from a checkpoint is possible.",
    risky: true,
    action: { kind: "abort", run },
  };
  const resume: InboxOption = {
    label: "Resume",
    about: "Checks what changed in the meantime, then continues in the background.",
    risky: false,
    action: { kind: "resume", run, accept: [], from: null },
  };
  const item = (
    kind: InboxItem["kind"],
    title: string,
    evidence: readonly Evidence[],
    options: readonly InboxOption[],
    compare: readonly string[] = [],
  ) => ({ row, kind, title, evidence, options, compare }) satisfies InboxItem;
  if (row.damaged.length > 0 || row.run.unfinishedRestore !== null) {
    const options = [...(params.resumes ? [resume] : []), ...restoreOptions(row)];
    return item("damaged", row.reason ?? "Checkpoints cannot be read", [], options);
  }
  if (findings.length > 0) {
    const accept = [...new Set(findings.map(({ kind }) => kind))];
    const about = "The changes are accepted, and the run continues in the background.";
    const take: InboxOption = {
      label: "Accept and resume",
      about,
      risky: true,
      action: { kind: "resume", run, accept, from: null },
    };
    const title = findings.length === 1 ? findings[0]?.summary : `${findings.length} things changed since it stopped`;
    return item("findings", title ?? "", findings.map(findingEvidence), [take, abort]);
  }
  switch (status.kind) {
    case "waiting": {
      if (status.due && status.question === null)
        return item(
          "due",
          `${sentence(status.reason)} Its time has come, and nothing continues it.`,
          [],
          [resume, abort],
        );
      if (status.for === "budget") return item("budget", status.reason, failure, [...raiseOptions(row), abort]);
      const { question } = status;
      const unknown = effects.filter(({ state }) => state.kind === "unknown");
      const evidence = [
        ...(question === null || status.reason === question.question ? [] : [textEvidence("Why", status.reason)]),
        ...unknown.map(({ kind, target, state }) =>
          textEvidence(`${kind} on ${target}`, state.kind === "unknown" ? state.reason : ""),
        ),
        ...failure,
      ];
      const kind = unknown.length > 0 ? "unknown_effect" : "question";
      if (question === null)
        return item(kind, status.reason, evidence, [
          { ...resume, about: "Fix the cause first. Then the run continues." },
          abort,
        ]);
      const options = question.options.map((answer) => answerOption(run, question.name, answer));
      // An answer that stops the run does what the user would abort it for.
      return item(
        kind,
        question.question,
        evidence,
        options.some(({ risky }) => risky) ? options : [...options, abort],
      );
    }
    case "crashed":
      return item("crashed", row.reason ?? "Its process died", failure, [resume, abort]);
    case "failed":
      if (isOrphanId(row.run.id) && row.run.forkedFrom !== null) {
        const source = row.run.forkedFrom.id.split("@")[0] ?? "";
        return item(
          "orphan",
          `Orphaned work of ${source}`,
          [textEvidence("What this is", ORPHAN)],
          orphanOptions(row, source),
          [`${row.repository}/${source}`, run],
        );
      }
      return item("failed", status.reason === "" ? "It failed" : status.reason, failure, [
        ...(params.end.raise === null ? [] : [iterationsOption(row)]),
        ...restartOptions(row, params.end),
      ]);
    default:
      return null;
  }
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function answerOption(run: string, question: string, answer: string): InboxOption {
  const stops = isStop(answer);
  return {
    label: answer,
    about: answerMeaning(question, answer),
    risky: stops,
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

/** The checkpoint of a restore that did not finish, else the newest one: its plan says whether it helps. */
function restoreOptions({ key, run }: RunRow): readonly InboxOption[] {
  const sequence = Number(/@(\d+)$/.exec(run.unfinishedRestore ?? "")?.[1] ?? run.latest?.sequence ?? 0);
  if (sequence === 0) return [];
  return [restoreOption(key, sequence)];
}

function restoreOption(key: string, sequence: number): InboxOption {
  const about = `Shows what going back to @${sequence} would change. Nothing is lost: the present files are saved first.`;
  const action: Action = { kind: "restore", run: key, sequence, paths: null };
  return { label: `Restore @${sequence}`, about, risky: true, action };
}

/** The checkpoint that `restore --smart` picks: the newest one has failed already. */
function restartOptions({ key, run }: RunRow, { restart }: Ending): readonly InboxOption[] {
  if (restart === null) return [];
  const about = `Goes back to @${restart}, the newest checkpoint that the run can continue from, and continues in the background. The present files are saved first.`;
  const again: InboxOption = {
    label: restartLabel(run.status, restart),
    about,
    risky: true,
    action: restartAction(key, restart),
  };
  return [again, restoreOption(key, restart)];
}

const ORPHAN =
  "An orphan keeps the work of a process whose lease another process took: files and state that the run itself does not have.";

function orphanOptions({ key, run }: RunRow, source: string): readonly InboxOption[] {
  const sequence = run.latest?.sequence ?? 1;
  return [
    {
      label: "Fork",
      about: `Creates a run from this work, with a worktree of its own. ${source} does not change.`,
      risky: false,
      action: { kind: "fork", run: key, sequence, as: null },
    },
    {
      label: "Remove",
      about: `Removes this work if you do not need it. ${source} does not change.`,
      risky: true,
      action: { kind: "remove", run: key },
    },
  ];
}

/** What the title says already is not repeated. */
function failureEvidence({ failure }: Pick<StoryReader, "failure">, title: string): readonly Evidence[] {
  if (failure === null) return [];
  const { name, why, tail } = failure;
  if (tail.length > 0) return [{ title: why, kind: "output", lines: tail }];
  const said = why.slice(why.indexOf(": ") + 1).trim();
  return title.includes(said) ? [] : [textEvidence(name, why)];
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
  const end = await opened.ending({ run: row.run, status });
  const actions = allowedActions({ key: row.key, run: row.run, status, restart: end.restart });
  const resumes = actions.some(({ action, why }) => action.kind === "resume" && why === null);
  return inboxItem({ row, story, effects, end, resumes, findings });
}

/** Of a store that does not answer: what its row says. */
function unreadItem(row: RunRow, findings: readonly OpenFinding[]): InboxItem | null {
  return inboxItem({ row, story: { failure: null }, effects: [], end: NOT_ENDED, resumes: false, findings });
}

/** What asks nothing comes after what does. */
const ENDED: ReadonlySet<InboxItem["kind"]> = new Set(["failed", "crashed", "damaged"]);

export async function readInbox(repositories: Repositories, findings: KnownFindings): Promise<Inbox> {
  const { asOf, rows, problems } = await readRuns(repositories, { ...EVERY_RUN, limit: 0 });
  const items: InboxItem[] = [];
  for (const row of rows) {
    const known = findings(row);
    if (row.group !== "you" && known.length === 0) continue;
    const named = repositories.named(row.repository);
    const read = async (): Promise<{ readonly item: InboxItem | null }> => ({
      item: await readItem(await repositories.openNamed(named), row, known),
    });
    const { item } = (await repositories.inTime(named, read, FIRST_MS)) ?? { item: unreadItem(row, known) };
    if (item !== null) items.push(item);
  }
  const first = (item: InboxItem): number => (ENDED.has(item.kind) ? 1 : 0);
  const order = (a: InboxItem, b: InboxItem): number =>
    first(a) - first(b) || (a.row.updatedAt < b.row.updatedAt ? -1 : 1);
  return { asOf, items: items.toSorted(order), problems };
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

function effectRow({ key, kind, target, state, entry }: PlacedEffect): EffectRow {
  const receipt = "receipt" in state ? state.receipt : null;
  const url = isJsonObject(receipt) && typeof receipt["url"] === "string" ? receipt["url"] : null;
  const shown = state.kind === "undoing" ? "done" : state.kind;
  const why = "reason" in state ? `: ${state.reason}` : "";
  return {
    key,
    kind,
    at: state.at,
    entry,
    state: shown,
    text: `${kind.replaceAll("_", " ")} on ${target}${why}`,
    receipt,
    link: url === null ? null : link(url, url),
  };
}

export async function readEffects(opened: OpenRepository, run: string): Promise<readonly EffectRow[]> {
  const { effects } = await opened.read(await (await opened.holdfast.run(run)).summary());
  return [...effects.values()].map(effectRow);
}

export async function readLogs(opened: OpenRepository, run: string): Promise<readonly LogRow[]> {
  const { story } = await opened.read(await (await opened.holdfast.run(run)).summary());
  const files = await opened.holdfast.logs.list(run);
  return files.map(({ path, step, stageAttempt, bytes, modifiedAt }) => ({
    number: logNumber(path),
    step,
    stage: story.stageOf(stageAttempt),
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
