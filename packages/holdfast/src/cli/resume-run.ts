/** Continues a run for `resume` and `run`: pre-flight, consent, waiting until a time, execution. */
import { setTimeout as sleep } from "node:timers/promises";
import { type JsonObject, isJsonArray } from "@holdfast/core/json";
import { priorityText } from "@holdfast/core/lease";
import type { Judgement, ResumePlan } from "@holdfast/core/resume-plan";
import type { RollbackChoice } from "@holdfast/core/rollback";
import { isEnded } from "@holdfast/core/run";
import { HoldfastError } from "@holdfast/platform/error";
import { isBuiltIn } from "@holdfast/workflows/built-in";
import type { WorkSettings } from "../config/work-settings.ts";
import { announceWait } from "../continuation.ts";
import type { Holdfast } from "../holdfast.ts";
import type { ResumeParams } from "../resume-request.ts";
import type { Shell } from "./command.ts";
import { type ResumeFlags, executeDetached, executeRun, refuseChanged, runHeldError } from "./execute-run.ts";
import type { Exit } from "./exit.ts";
import { unlessAborted } from "./interrupts.ts";
import { type Page, type Style, paint } from "./output/page.ts";
import { escapeText, escapeWords, momentText, truncate, wrap } from "./output/text.ts";
import { rollbackText } from "./pick-checkpoint.ts";
import {
  howImported,
  importedItems,
  rememberTyped,
  storedWorkflow,
  workflowFile,
  worktreeItems,
} from "./run-consent.ts";
import { runJson } from "./run-json.ts";
import { limitFlags, promptsOf, readImportedRunOptions } from "./run-options.ts";
import { planUses, usesText } from "./run-plan.ts";
import { quoteWord } from "./shell.ts";

interface ResumeOptions extends Pick<
  ResumeParams,
  "run" | "answers" | "from" | "force" | "limit" | "limits" | "agent" | "sessionMs" | "loopSlot" | "priority"
> {
  /** How `from` was chosen, if it was derived from the failure. */
  readonly rollback?: RollbackChoice;
  readonly dryRun: boolean;
  /** Wait for the time that the run waits until, each time it does. */
  readonly wait?: boolean;
  /** The file of a custom workflow. */
  readonly workflow?: string;
  /** Let a background process execute the run. */
  readonly detach?: boolean;
}

/**
 * Prints the pre-flight and, unless a finding blocks it, continues the run. With `wait` it resumes again each time the
 * run waits until a time.
 */
export async function resumeRun(shell: Shell, holdfast: Holdfast, params: ResumeOptions): Promise<Exit> {
  const { run, wait = false, dryRun, sessionMs, workflow, loopSlot } = params;
  let exit = await resumeOnce(shell, holdfast, params);
  if (!wait || dryRun) return exit;
  while (exit === "waiting" && (await waitsUntil(holdfast, run)) !== null) {
    exit = await resumeOnce(shell, holdfast, {
      run,
      dryRun,
      wait,
      ...(sessionMs === undefined ? {} : { sessionMs }),
      ...(workflow === undefined ? {} : { workflow }),
      ...(loopSlot === undefined ? {} : { loopSlot }),
    });
  }
  return exit;
}

async function resumeOnce(shell: Shell, holdfast: Holdfast, params: ResumeOptions): Promise<Exit> {
  const { rollback, dryRun, wait = false, workflow: file, detach = false, ...passed } = params;
  const { run } = passed;
  const holder = await (await holdfast.run(run)).holder();
  if (holder?.alive === "alive") {
    if (passed.priority !== undefined && !dryRun) {
      await holdfast.work.setPriority(run, passed.priority);
      const { priority, ...found } = await holdfast.runWithStatus(run);
      shell.print({
        json: () => ({ kind: "priority", run: runJson(found), priority }),
        text: () => `${run} now has priority ${priorityText(priority)}.\n`,
      });
      return "done";
    }
    const back = !dryRun && (await holdfast.work.withdrawSignal(run, "pause"));
    if (!back) throw runHeldError(run, holder.lease);
    const found = await holdfast.runWithStatus(run);
    shell.print({
      json: () => ({ kind: "withdrawn", run: runJson(found), signal: "pause" }),
      text: () => `${run} continues: it had not paused yet.\n`,
    });
    return "done";
  }
  await refuseChanged(shell, holdfast, run);
  const waits = wait && !dryRun;
  const wakes = waits ? await waitForTime(shell, holdfast, run) : null;
  if (!dryRun) await requireImported(shell, holdfast, params);
  const summary = await (await holdfast.run(run)).summary();
  using starting = dryRun ? null : holdfast.work.announce({ run, workflow: summary.workflow, work: summary.work });
  const { workflow } = await workflowFile(shell, holdfast, { run, named: file });
  const { work } = (await (dryRun ? shell.consent.stated() : shell.config())).settings;
  const request = {
    ...passed,
    signal: shell.signal,
    // An imported run does not store these options; every other run has its own.
    adopt: {
      agent: work.agent,
      options: (await holdfast.work.isPendingImport(params))
        ? await importedOptions(shell, summary.workflow, passed.agent, work)
        : {},
    },
    ...(workflow === undefined ? {} : { workflow }),
    ...(wakes === null ? {} : { wakes }),
  };
  const planned = await unlessAborted(shell.signal, holdfast.work.preflight(request, { programs: dryRun }));
  if (!dryRun) await requireWorktree(shell, holdfast, params, planned);
  const flags = await flagsOf(holdfast, params);
  const { plan, findings, notes } = planned;
  const rollbackOf = (page: Page): string => (rollback === undefined ? "" : rollbackText(run, rollback, page));
  if (dryRun) {
    const { forge } = await holdfast.work.adapters();
    const resumed = { config: planned.current.config, shape: { name: planned.run.workflow }, forge };
    const imported = await importedItems(holdfast, params);
    const uses = await planUses(shell, await shell.consent.stated(), resumed, imported);
    const more = rollback === undefined ? {} : { rollback };
    const found = await holdfast.runWithStatus(run);
    shell.print({
      json: () => ({ kind: "plan", run: runJson(found), plan, findings, notes, verdict: plan.kind, uses, ...more }),
      text: (page) =>
        rollbackOf(page) +
        preflightText(planned, page) +
        verdictText(`${run}${backTo(params)}${flags.untouched}`, planned, page) +
        usesText(uses, page, run),
    });
    return "done";
  }
  // A question is shown here, not in the output of a process that ends with it.
  if (detach && plan.kind !== "ask") {
    starting?.remove();
    return await executeDetached(shell, holdfast, { run, workflow: summary.workflow, work: summary.work });
  }
  if (shell.json && rollback !== undefined)
    shell.write(`${JSON.stringify({ run, at: new Date().toISOString(), kind: "rollback", rollback })}\n`);
  if (shell.json && findings.length > 0)
    shell.write(`${JSON.stringify({ run, at: new Date().toISOString(), kind: "findings", findings })}\n`);
  for (const text of shell.json ? notes : [])
    shell.write(`${JSON.stringify({ run, at: new Date().toISOString(), kind: "note", text })}\n`);
  if (!shell.json && !shell.quiet) shell.write(rollbackOf(shell.page) + preflightText(planned, shell.page));
  await refuseChanged(shell, holdfast, run);
  return await executeRun(
    shell,
    holdfast,
    (listen) => holdfast.work.resume({ ...request, listen, starting }, planned),
    flags,
  );
}

/** The options of the config for the workflow that adopts the run. */
async function importedOptions(
  shell: Shell,
  workflow: string,
  agent: string | undefined,
  settings: WorkSettings,
): Promise<JsonObject> {
  const options = readImportedRunOptions(workflow, agent, settings);
  // A loop uses the options of its document.
  if (!isBuiltIn(workflow) || workflow === "ralph") return options;
  if (workflow === "impl") return { ...options, prompts: await promptsOf(shell.consent, workflow, settings.impl) };
  return {
    ...options,
    prompts: await promptsOf(shell.consent, workflow),
    settings: await shell.consent.crunchSettings(),
  };
}

/** Names the checkpoint that was chosen now, so that a repeated command does the same even if the run has changed. */
function backTo({ run, from, force }: ResumeOptions): string {
  return from === undefined ? "" : ` --from ${run}@${from}${force === true ? " --force" : ""}`;
}

/**
 * An imported run uses the commands, agents and prompts of its document, and before its first resume also those of the
 * config. The user typed neither, so both need consent. Every other run keeps the settings that it began with.
 */
async function requireImported(shell: Shell, holdfast: Holdfast, params: ResumeOptions): Promise<void> {
  const { run, agent, limits = {}, force = false } = params;
  const { workflow, latest, state } = await (await holdfast.run(run)).summary();
  if (latest === null || (await howImported(holdfast, run)) === null) return;
  const pending = await holdfast.work.isPendingImport(params);
  // A run that has ended executes nothing, unless a new limit continues it.
  if (isEnded(state) && !pending && !force && Object.keys(limits).length === 0) return;
  const replaced = new Set([
    ...(agent === undefined ? [] : ["agent", "models.impl", "models.review"]),
    ...(limits["until"] === undefined ? [] : ["ralph.until"]),
  ]);
  const begins = !pending ? [] : (["start", ...(isBuiltIn(workflow) ? [workflow] : [])] as const);
  await shell.consent.require({ uses: begins, replaced, more: await importedItems(holdfast, params), run });
}

/** The worktree may hold other files than the checkout: those of the base branch, of a rebase, or of the agent. */
async function requireWorktree(
  shell: Shell,
  holdfast: Holdfast,
  { run, agent }: ResumeOptions,
  planned: Awaited<ReturnType<Holdfast["work"]["preflight"]>>,
): Promise<void> {
  const { config } = planned.current;
  if (agent !== undefined) await rememberTyped(shell, [agent]);
  const found = await worktreeItems(shell, holdfast, { run, workflow: planned.run.workflow, config });
  await shell.consent.require({ uses: [], run, ...found });
}

/** An imported run does not store a workflow file, so the user must repeat it. It stores the agent once it has begun. */
async function flagsOf(holdfast: Holdfast, params: ResumeOptions): Promise<ResumeFlags> {
  const { run, workflow, agent, limit = {}, limits = {}, answers = {} } = params;
  const { labels } = await (await holdfast.run(run)).summary();
  const always =
    workflow === undefined || (await storedWorkflow(holdfast, labels)) === workflow
      ? ""
      : ` --workflow ${quoteWord(workflow)}`;
  const typed = Object.entries(limits).flatMap(([name, value]) =>
    (isJsonArray(value) ? value : [value]).map(
      (one) => ` --${name} ${typeof one === "string" ? quoteWord(one) : String(one)}`,
    ),
  );
  const accepted = Object.entries(answers).map(
    ([kind, answer]) => ` --accept ${kind}${answer === "accept" ? "" : `=${answer}`}`,
  );
  const named = agent === undefined ? "" : ` --agent ${quoteWord(agent)}`;
  return { always, untouched: [always, named, ...typed, limitFlags(limit), ...accepted].join("") };
}

/**
 * Waits until the time that the run waits for, or until there is enough disk space, and returns that time. The resume
 * passes it on, so that it continues the run only if that is still what it waits for. Returns null at once if there is
 * no such time. Polls the clock, because it may be set and the machine may sleep. Only a lock is held meanwhile, which
 * shows that this process waits, so a kill loses nothing. Throws LEASE_HELD if another process resumed the run.
 */
async function waitForTime(
  shell: Shell,
  holdfast: Pick<Holdfast, "run" | "hasRoom" | "store">,
  run: string,
): Promise<string | null> {
  const until = await waitsUntil(holdfast, run);
  const { state } = await (await holdfast.run(run)).summary();
  const needsSpace = state.kind === "waiting" && state.for === "disk";
  const left = (): number => (until === null ? 0 : Date.parse(until) - Date.now());
  const isOver = async (): Promise<boolean> => (needsSpace ? await holdfast.hasRoom(run) : left() <= 0);
  if (await isOver()) return until;
  using _waits = announceWait(holdfast.store.location, run);
  const what = needsSpace ? "there is space on the disk" : momentText(until ?? "", shell.talk);
  shell.notify(`Waiting for ${run} until ${what} …`);
  do {
    const pause = needsSpace ? TICK_MS : Math.min(Math.max(left(), MIN_MS), TICK_MS);
    await sleep(pause, undefined, { signal: shell.signal });
    if ((await waitsUntil(holdfast, run)) !== until) throw resumedElsewhere(run);
  } while (!(await isOver()));
  return until;
}

const TICK_MS = 1000;
const MIN_MS = 10;

/** null: the run does not wait, or it waits for something without a known time. */
export async function waitsUntil(holdfast: Pick<Holdfast, "run">, run: string): Promise<string | null> {
  const { state } = await (await holdfast.run(run)).summary();
  return state.kind === "waiting" ? state.until : null;
}

function resumedElsewhere(run: string): HoldfastError {
  return new HoldfastError({
    code: "LEASE_HELD",
    message: `Another process resumed run ${run} while this command waited`,
    hint: `Show its status: \`holdfast status ${run}\`.`,
    retry: "later",
    data: { run },
  });
}

/** Shows every finding, the decision about it, and what is done before the run continues. */
function preflightText(
  { plan, notes }: { readonly plan: ResumePlan; readonly notes: readonly string[] },
  page: Page,
): string {
  const actions = plan.kind === "refuse" ? [] : plan.actions;
  const changes = plan.judgements.filter(({ decision }) => decision !== "accepted_before");
  const lines = changes.flatMap((judgement) => [
    ...judgementLines(judgement, page),
    ...diffLines(judgement.finding.diff, page),
  ]);
  const doings = [...new Set(actions.map(({ why }) => why))].flatMap((why) =>
    marked(paint(page, "cyan", "→"), why, page),
  );
  const noteLines = notes.flatMap((note) => marked(paint(page, "yellow", "!"), note, page));
  return [...lines, ...noteLines, ...doings].map((line) => `${line}\n`).join("");
}

function judgementLines({ finding, verdict, decision }: Judgement, page: Page): readonly string[] {
  const { mark, style } = MARKS[verdict];
  const answer = decision === "accepted" ? " (accepted)" : decision === "put_back" ? " (files restored)" : "";
  const kind = verdict === "ask" ? ` [${finding.kind}]` : "";
  return marked(paint(page, style, mark), `${finding.summary}${answer}${kind}`, page);
}

const MARKS: Readonly<Record<Judgement["verdict"], { readonly mark: string; readonly style: Style }>> = {
  resume: { mark: "·", style: "dim" },
  warn: { mark: "!", style: "yellow" },
  ask: { mark: "?", style: "yellow" },
  refuse: { mark: "✗", style: "red" },
};

function marked(mark: string, text: string, page: Page): readonly string[] {
  const [first = "", ...rest] = wrap(escapeWords(text), Math.min(page.width, 100) - 4);
  return [`${mark} ${first}`, ...rest.map((line) => `  ${line}`)];
}

/** A patch of the issue's text, coloured as patches are. */
function diffLines(diff: string | undefined, page: Page): readonly string[] {
  if (diff === undefined || diff === "") return [];
  return diff
    .trimEnd()
    .split("\n")
    .map((line) => {
      const text = truncate(escapeText(line), page.width - 5);
      const style = line.startsWith("+") ? "green" : line.startsWith("-") ? "red" : undefined;
      return `    ${style === undefined ? text : paint(page, style, text)}`;
    });
}

/** The conclusion of the pre-flight, for --dry-run. */
function verdictText(
  run: string,
  { plan, notes }: { readonly plan: ResumePlan; readonly notes: readonly string[] },
  page: Page,
): string {
  const go = `${page.program} resume ${run}`;
  switch (plan.kind) {
    case "resume":
      return plan.judgements.length === 0 && notes.length === 0
        ? `Nothing has changed in the meantime. Continue with: ${go}\n`
        : `Nothing needs a decision. Continue with: ${go}\n`;
    case "warn":
      return `It can continue as described above: ${go}\n`;
    case "ask":
      return `Needs a decision: ${escapeWords(plan.why)}.\n${escapeWords(plan.hint)}\n`;
    case "refuse":
      return `Cannot continue: ${escapeWords(plan.why)}.\n${escapeWords(plan.hint)}\n`;
    case "done":
      return `${escapeWords(plan.why)}. There is nothing to do.\n`;
  }
}
