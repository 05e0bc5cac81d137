// Concludes an agent call: collects its outputs, records its result with its files, and watches the user's main checkout.
import { HoldfastError } from "@holdfast/platform/error";
import { snapshotParams } from "./adapters.ts";
import { answerFile } from "./agent-log.ts";
import { type Agent, type AgentOutcome, chooseAgent, splitAgent } from "./agent.ts";
import { NOTHING } from "./budget.ts";
import type { FilesPlane } from "./checkpoint.ts";
import type { NewEntry } from "./journal.ts";
import { type Json, sha256 } from "./json.ts";
import { findSecrets, maskSecrets } from "./mask.ts";
import { type Amounts, fallbackOf } from "./position.ts";
import { reasonOf } from "./progress.ts";
import { type AgentTake, recordAgentEntry } from "./record-run.ts";
import { type RunSession, emitNote } from "./run-session.ts";
import { requireSideWorktrees } from "./side-worktrees.ts";
import type { OpenSideWorktree, StageExecution } from "./step.ts";
import { decide, decisionStep } from "./waiting.ts";
import { own, rebaseRunning } from "./state.ts";
import { capture } from "./values.ts";
import type { AgentCall, AgentReport, CheckoutChange } from "./workflow.ts";
import type { CheckoutState, Workspace } from "./workspace.ts";

export interface CallAttempt {
  readonly outcome: AgentOutcome;
  /** The session that this attempt continued. null: it started a new one. */
  readonly session: string | null;
  readonly spent: Amounts;
  readonly milliseconds: number;
  /** null: the run is not recorded. */
  readonly take: AgentTake | null;
  /** Changes in the user's main checkout during the call. null: none. */
  readonly checkout: CheckoutChange | null;
  /** The limit that cannot be kept because the usage is unknown. null: none. */
  readonly unkept: NonNullable<AgentReport["unkept"]> | null;
}

/** Records the call's result and the files that belong to it in one commit. */
export async function concludeCall(
  execution: StageExecution,
  trying: Pick<ActiveCall, "call" | "agent" | "model" | "workspace" | "files" | "sideWorktree" | "tools">,
  tried: CallAttempt,
): Promise<AgentReport> {
  const { runSession } = execution;
  const { sideWorktree, call } = trying;
  const { name } = call;
  const collected = await collectOutputs(execution, trying);
  execution.open();
  const before = runSession.state.files?.tree ?? null;
  const finish = (found: Found, files: FilesPlane | null, as = tried): readonly [AgentReport, NewEntry] => {
    recordAgentEntry(runSession, as.take, { after: files, failed: null });
    const tools = trying.tools.size === 0 ? {} : { tools: [...trying.tools] };
    const report = reportOf(as, { ...found, ...collected, agent: agentText(trying), ...tools });
    runSession.sideTalks.delete(name);
    return [report, execution.finished(name, { result: report, spent: as.spent })];
  };
  let report: AgentReport | undefined;
  if (trying.files) {
    await runSession.save({
      trigger:
        isComplete(collected) && runSession.adapters.checkpoints.artifactComplete
          ? "artifact_complete"
          : "agent_complete",
      name,
      change: (planes, { sequence }) => rebaseRunning(planes, sequence),
      prepare: ({ files }) => {
        const changed = files === null || before === null ? null : files.tree !== before;
        const [made, entry] = finish({ changed, commit: null, sideWorktree: null }, files);
        report = made;
        return [entry];
      },
    });
  } else {
    const found =
      sideWorktree === null ? NO_SIDE_WORKTREE : await foundSideWorktree(execution, sideWorktree, trying.workspace);
    execution.open();
    const files = sideWorktree === null ? runSession.state.files : null;
    const [made, entry] = found === null ? finish(NO_SIDE_WORKTREE, files, deserted(tried)) : finish(found, files);
    report = made;
    await runSession.append(entry);
    if (sideWorktree !== null && found !== null && found.commit !== null) sideWorktree.commit = found.commit;
  }
  if (report === undefined) throw new TypeError("a checkpoint was saved without its entries");
  runSession.emit({ kind: "step_finished", step: name, replayed: false });
  return report;
}

type Found = Pick<AgentReport, "changed" | "commit" | "sideWorktree">;

const NO_SIDE_WORKTREE: Found = { changed: null, commit: null, sideWorktree: null };

/** The commit is pinned before the journal names it. null: the side worktree's directory was deleted. */
async function foundSideWorktree(
  { runSession }: StageExecution,
  sideWorktree: OpenSideWorktree,
  workspace: Workspace,
): Promise<Found | null> {
  const { adapters, run } = runSession;
  const sideWorktrees = requireSideWorktrees(runSession, sideWorktree.name);
  const params = snapshotParams(adapters);
  const files = await workspace.look(params).catch((error: unknown) => {
    if (error instanceof HoldfastError && error.code === "WORKSPACE_MISSING") return null;
    throw error;
  });
  if (files === null) return null;
  const commit = await sideWorktrees.commit({ run: run.id, files, at: params.at });
  const changed = files.tree !== (await sideWorktrees.treeOf(sideWorktree.commit));
  return {
    changed,
    commit,
    sideWorktree: { name: sideWorktree.name, from: sideWorktree.commit, skipped: files.skipped },
  };
}

/**
 * An agent that deletes its own working directory has produced nothing, whatever it reports. It counts as a crash,
 * because an error here would occur on every resume and the run could never continue.
 */
function deserted(tried: CallAttempt): CallAttempt {
  const { outcome } = tried;
  if (outcome.kind === "failed") return tried;
  const { session, usage } = outcome;
  const message = "The folder that it worked in is gone, and its work with it";
  const failed = { kind: "failed", cause: "crash", message, hint: null, until: null, instant: false } as const;
  return { ...tried, outcome: { ...failed, session, usage } };
}

/** True when every output file that the call had to write exists. */
function isComplete({ collected }: Pick<AgentReport, "collected">): boolean {
  const texts = Object.values(collected);
  return texts.length > 0 && texts.every((text) => text !== null);
}

async function collectOutputs(
  { runSession }: StageExecution,
  { call, workspace }: { readonly call: AgentCall; readonly workspace: Workspace },
): Promise<Pick<AgentReport, "collected" | "uncollected">> {
  const outputs = runSession.adapters.outputs(workspace.root);
  const collected: Record<string, string | null> = {};
  const uncollected: Record<string, string> = {};
  for (const path of call.collect ?? []) {
    const text = await outputs.read(path);
    collected[path] = text === null ? null : await maskAndReport(runSession, path, text);
    const why = collected[path] === null ? await outputs.refusal(path) : null;
    if (why !== null) uncollected[path] = why;
  }
  return { collected, uncollected };
}

/** Masks secrets in text that an agent wrote for others, and adds a journal note about it. */
export async function maskAndReport(runSession: RunSession, what: string, text: string): Promise<string> {
  const { mask, find } = runSession.adapters.masking ?? { mask: maskSecrets, find: findSecrets };
  const masked = mask(text);
  if (masked === text) return text;
  const kinds = [...new Set(find(text).map(({ kind }) => kind))].join(", ") || "secret";
  const note = `${what} held what looks like a secret (${kinds}). It is masked as ***.`;
  await emitNote(runSession, note);
  return masked;
}

function reportOf(
  { outcome, milliseconds, checkout, unkept }: CallAttempt,
  found: Found & Pick<AgentReport, "collected" | "uncollected" | "agent" | "tools">,
): AgentReport {
  const failed = outcome.kind === "failed";
  const { inputTokens, outputTokens, microUsd } = outcome.usage;
  const report: AgentReport = {
    outcome: outcome.kind,
    cause: failed ? outcome.cause : null,
    message: failed ? outcome.message : null,
    text: failed ? "" : outcome.text,
    session: outcome.session,
    usage: { inputTokens, outputTokens, microUsd },
    ...found,
    milliseconds,
    ...(checkout === null ? {} : { checkout }),
    ...(unkept === null ? {} : { unkept }),
  };
  const captured: Json = capture(report);
  // capture() returns a value of the same shape.
  return captured as AgentReport;
}

/** An agent call during its attempts. */
export interface ActiveCall {
  readonly call: AgentCall;
  /** The agent that the call or the run names, as `provider:model`. */
  readonly own: string;
  /** The agent of the current attempt. It changes when the call falls back to another agent. */
  agent: Agent;
  model: string | null;
  /** The run's worktree, or the side worktree that the current attempt uses. */
  workspace: Workspace;
  /** True when the call changes the run's own files. */
  readonly files: boolean;
  readonly sideWorktree: OpenSideWorktree | null;
  /** Reserved for the current attempt. */
  estimate: Amounts;
  /** The user's main checkout before this process's first attempt. undefined: not read yet. null: not watched. */
  checkout?: CheckoutState | null;
  /** True when this process has already dropped a session of the call. */
  hasDroppedSession: boolean;
  /** Tools that the agent used in this process, at most MAX_TOOLS. */
  readonly tools: Set<string>;
}

export const MAX_TOOLS = 50;

export function beginCall(
  execution: StageExecution,
  call: AgentCall,
  sideWorktree: OpenSideWorktree | null,
): ActiveCall {
  const { adapters, workspace, run } = execution.runSession;
  const { config } = execution.runSession.state;
  const { provider, model } = chooseAgent(call.model, config);
  if (workspace === undefined) {
    throw new HoldfastError({
      code: "WORKSPACE_MISSING",
      message: `Step ${call.name} of run ${run.id} calls an agent, and the run has no worktree to work in`,
      hint: "Begin the run with a worktree.",
    });
  }
  const trying: ActiveCall = {
    call,
    own: model === null ? provider : `${provider}:${model}`,
    agent: adapters.agent(provider),
    model,
    workspace,
    files: sideWorktree === null && (call.changesFiles ?? true),
    sideWorktree,
    estimate: call.estimate ?? NOTHING,
    hasDroppedSession: false,
    tools: new Set(),
  };
  chooseCallAgent(execution, trying);
  return trying;
}

/** The agent of the current attempt, as `provider:model`. */
export function agentText({ agent, model }: Pick<ActiveCall, "agent" | "model">): string {
  return model === null ? agent.name : `${agent.name}:${model}`;
}

/** Selects the agent from the record, so that it is the same after a kill: the fallback agent if there is one, else its own. */
export function chooseCallAgent(execution: StageExecution, trying: ActiveCall): void {
  const { adapters } = execution.runSession;
  const { config } = execution.runSession.state;
  const { errors } = execution.runSession.attempt;
  const { provider, model } = chooseAgent(fallbackOf(own(errors, trying.call.name)) ?? trying.own, config);
  trying.agent = adapters.agent(provider);
  trying.model = model;
}

/** Reads the state of the user's main checkout. null: it is not watched. An unreadable checkout never fails a call. */
export async function watchCheckout(runSession: RunSession, runRoot: string): Promise<CheckoutState | null> {
  const { workspaces, mainCheckout } = runSession.adapters;
  if (workspaces === null || mainCheckout === undefined) return null;
  return await workspaces.mainCheckout(runRoot).catch((error: unknown) => {
    runSession.emit({ kind: "note", text: `The main checkout cannot be watched: ${reasonOf(error)}` });
    return null;
  });
}

/**
 * The main checkout before the first attempt of a call, stored in a file until the call concludes. The next process
 * compares with it when it adopts a result or calls again. Entries are pairs of name and value, so that the file is
 * plain JSON.
 */
interface KeptCheckout {
  readonly root: string;
  readonly before: readonly (readonly [string, string])[];
  /** State after the last failed attempt. null: no attempt has ended. */
  readonly after: readonly (readonly [string, string])[] | null;
  /** True when the user was asked about the change from `before` to `after`. */
  readonly isAsked: boolean;
}

/**
 * Sets the baseline before an attempt. Changes of a failed attempt still count. Changes between that attempt and this
 * one are the user's own.
 */
export async function openCheckout(
  runSession: RunSession,
  { call, workspace }: ActiveCall,
): Promise<CheckoutState | null> {
  const kept = readKept(runSession, call.name);
  const now = await watchCheckout(runSession, workspace.root);
  if (now === null) return null;
  const state = kept?.root === now.root ? baseline(kept, now.state) : now.state;
  keep(runSession, call.name, { root: now.root, before: [...state], after: null, isAsked: false });
  return { root: now.root, state };
}

function baseline({ before, after }: KeptCheckout, now: CheckoutState["state"]): CheckoutState["state"] {
  // The process died during the attempt, so it is unknown when a change was made.
  if (after === null) return new Map(before);
  const [was, then] = [new Map(before), new Map(after)];
  const state = new Map(now);
  for (const name of changedNames(was, then)) {
    const value = was.get(name);
    if (value === undefined) state.delete(name);
    else state.set(name, value);
  }
  return state;
}

/** Returns the checkout before a call whose result is adopted, as the dead process stored it. null: it was not watched. */
export function checkoutBefore(runSession: RunSession, step: string): CheckoutState | null {
  const kept = readKept(runSession, step);
  return kept === null ? null : { root: kept.root, state: new Map(kept.before) };
}

/** Stores the state of the checkout after a failed attempt. */
export function storeFailedAttempt(
  runSession: RunSession,
  step: string,
  { before, after }: { readonly before: CheckoutState | null; readonly after: CheckoutState | null },
): void {
  if (before === null || after === null) return;
  keep(runSession, step, { root: before.root, before: [...before.state], after: [...after.state], isAsked: false });
}

/** Deletes the stored checkout. Call it after the journal has the result of the call. */
export function forgetCheckout(runSession: RunSession, step: string): void {
  answerFile(runSession, fileStep(step)).remove();
}

/**
 * Asks about a change that a failed attempt made, before the agent is called again, also in a later process. It asks
 * once per call. A further change is part of the question at the end of the call.
 */
export async function askAboutFailedAttempt(execution: StageExecution, trying: ActiveCall): Promise<void> {
  const { runSession } = execution;
  const { call } = trying;
  const name = failedTryStep(call);
  const kept = readKept(runSession, call.name);
  if (execution.recall(name) !== undefined) {
    if (kept?.isAsked !== true) return;
    // The user accepted the change, so the next attempt starts with the checkout as it is now.
    forgetCheckout(runSession, call.name);
    delete trying.checkout;
    return;
  }
  if (kept === null || kept.after === null || runSession.adapters.mainCheckout !== "ask") return;
  const { root, before, after } = kept;
  const change = compareCheckouts({ root, state: new Map(before) }, { root, state: new Map(after) });
  if (change === null) return;
  keep(runSession, call.name, { ...kept, isAsked: true });
  execution.asked.add(change.digest);
  await decide(execution, { name, question: question(call, change), options: ["continue"] });
}

/** Recalls the answer about failed attempts, a finished step. A finished step that no code asks for looks like a changed stage. */
export function readFailedAttempt(execution: StageExecution, call: AgentCall): void {
  execution.recall(failedTryStep(call));
}

export function failedTryStep({ name }: AgentCall): string {
  return `${name}:checkout-of-failed-try`;
}

export function checkoutStep({ name }: AgentCall): string {
  return `${name}:checkout`;
}

function fileStep(step: string): string {
  return `${step}:checkout`;
}

function keep(runSession: RunSession, step: string, kept: KeptCheckout): void {
  answerFile(runSession, fileStep(step)).write(JSON.stringify(kept));
}

function readKept(runSession: RunSession, step: string): KeptCheckout | null {
  const text = answerFile(runSession, fileStep(step)).read();
  if (text === null) return null;
  try {
    // The file is written as a whole by keep() of the same version.
    return JSON.parse(text) as KeptCheckout;
  } catch {
    return null;
  }
}

function changedNames(before: CheckoutState["state"], after: CheckoutState["state"]): readonly string[] {
  return [...new Set([...before.keys(), ...after.keys()])].filter((name) => before.get(name) !== after.get(name));
}

/** Compares two states of the checkout. null: nothing changed. */
export function compareCheckouts(before: CheckoutState | null, after: CheckoutState | null): CheckoutChange | null {
  if (before === null || after === null || before.root !== after.root) return null;
  const names = changedNames(before.state, after.state);
  if (names.length === 0) return null;
  const changes = names.toSorted().map((name) => `${name}\0${before.state.get(name)}\0${after.state.get(name)}`);
  return {
    root: before.root,
    paths: names.map((name) => name.replace(/^file /, "")).slice(0, MOST_PATHS),
    more: Math.max(0, names.length - MOST_PATHS),
    digest: sha256(changes.join("\n")),
  };
}

const MOST_PATHS = 20;

/** Message for the user about a changed main checkout. */
export function checkoutText(call: AgentCall, { root, paths, more }: CheckoutChange): string {
  const rest = more === 0 ? "" : ` and ${more} more`;
  return `The main checkout ${root} changed during the call of the agent (${call.name}): ${paths.join(", ")}${rest}`;
}

/**
 * Asks once about each distinct change. The change is part of the call's recorded result, so a later process asks the
 * same question. The answer is a step of the stage attempt. If changes are only reported, the run does not wait.
 */
export async function askAboutCheckoutChange(
  execution: StageExecution,
  call: AgentCall,
  report: AgentReport,
): Promise<void> {
  const { checkout } = report;
  if (checkout === undefined) return;
  const name = checkoutStep(call);
  const isAnswered = Object.hasOwn(execution.runSession.attempt.steps, name);
  if (!isAnswered && (execution.runSession.adapters.mainCheckout !== "ask" || execution.asked.has(checkout.digest)))
    return;
  execution.asked.add(checkout.digest);
  await decide(execution, {
    name,
    question: question(call, checkout),
    options: ["continue"],
  });
}

/**
 * Asks after a call whose usage is unknown, if a limit cannot be kept without it. One answer holds for the stage attempt. A higher limit does
 * not help, but a removed one does: then a resume does not ask again.
 */
export async function askAboutUnknownUsage(
  execution: StageExecution,
  call: AgentCall,
  { agent, unkept }: AgentReport,
): Promise<void> {
  const { attempt, budget, run } = execution.runSession;
  if (unkept === undefined || agent === undefined || budget.limit[unkept] === null) return;
  const name = usageStep(call);
  const isAnswered = Object.hasOwn(attempt.steps, decisionStep({ name, recheck: true }));
  if (!isAnswered && execution.asked.has(UNKNOWN_USAGE)) return;
  execution.asked.add(UNKNOWN_USAGE);
  const who = splitAgent(agent).model === null ? `${agent} with its default model` : agent;
  const instead =
    unkept === "microUsd"
      ? `Set the price of ${who} (\`prices\` in the config), or limit tokens instead: \`holdfast resume ${run.id} --max-cost none --max-tokens N\`.`
      : `Limit time instead: \`holdfast resume ${run.id} --max-tokens none --max-total-time 1h\`.`;
  await decide(execution, {
    name,
    question: `The limit on ${unkept === "microUsd" ? "money" : "tokens"} cannot be kept: what ${who} used for ${call.name} is not known. ${instead} To continue all the same, answer continue.`,
    options: ["continue"],
    recheck: true,
  });
}

const UNKNOWN_USAGE = "unknown usage";

export function usageStep({ name }: AgentCall): string {
  return `${name}:usage`;
}

function question(call: AgentCall, change: CheckoutChange): string {
  return `${checkoutText(call, change)}. The run's own files are in its worktree, and Holdfast leaves your checkout as it is: look at it with \`git -C ${change.root} status\`. If you made these changes yourself, or want to keep them, answer continue.`;
}
