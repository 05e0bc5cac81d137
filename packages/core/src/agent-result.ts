import { HoldfastError } from "@holdfast/platform/error";
import { snapshotParams } from "./adapters.ts";
import { answerFile } from "./agent-log.ts";
import { type Agent, type AgentOutcome, chooseAgent } from "./agent.ts";
import { NOTHING } from "./budget.ts";
import type { FilesPlane } from "./checkpoint.ts";
import type { NewEntry } from "./journal.ts";
import { type Json, pureSha256 } from "./json.ts";
import { findSecrets, maskSecrets } from "./mask.ts";
import { type Amounts, fallbackOf } from "./position.ts";
import { reasonOf } from "./progress.ts";
import { type AgentTake, recordAgentEntry } from "./record-run.ts";
import type { RunSession } from "./run-session.ts";
import { requireAsides } from "./side-worktrees.ts";
import type { OpenAside, StageExecution } from "./stage-execution.ts";
import { own, rebaseRunning } from "./state.ts";
import { decide } from "./step.ts";
import { capture } from "./values/capture.ts";
import type { AgentCall, AgentReport, CheckoutChange } from "./workflow.ts";
import type { CheckoutState, Workspace } from "./workspace.ts";

export interface CallAttempt {
  readonly outcome: AgentOutcome;
  /** The one that it went on with. */
  readonly session: string | null;
  readonly spent: Amounts;
  readonly milliseconds: number;
  /** null: the run is not recorded. */
  readonly take: AgentTake | null;
  /** What changed in the user's main checkout meanwhile; null: nothing. */
  readonly checkout: CheckoutChange | null;
}

/** What a call came to, with the files that belong to it, as one act. */
export async function concludeCall(
  stay: StageExecution,
  trying: {
    readonly call: AgentCall;
    readonly workspace: Workspace;
    /** Of the run's own. */
    readonly files: boolean;
    readonly aside: OpenAside | null;
  },
  tried: CallAttempt,
): Promise<AgentReport> {
  const { writer } = stay;
  const { aside, call } = trying;
  const { name } = call;
  const collected = await collectOutputs(stay, trying);
  stay.open();
  const before = writer.files?.tree ?? null;
  const finish = (found: Found, files: FilesPlane | null, as = tried): readonly [AgentReport, NewEntry] => {
    recordAgentEntry(writer, as.take, { after: files, failed: null });
    const report = reportOf(as, { ...found, ...collected });
    writer.sideTalks.delete(name);
    return [report, stay.finished(name, { result: report, spent: as.spent })];
  };
  let report: AgentReport | undefined;
  if (trying.files) {
    await writer.save({
      trigger:
        isComplete(collected) && writer.parts.checkpoints.artifactComplete ? "artifact_complete" : "agent_complete",
      name,
      change: (planes, { sequence }) => rebaseRunning(planes, sequence),
      prepare: ({ files }) => {
        const changed = files === null || before === null ? null : files.tree !== before;
        const [made, entry] = finish({ changed, commit: null, aside: null }, files);
        report = made;
        return [entry];
      },
    });
  } else {
    const found = aside === null ? NOT_ASIDE : await foundAside(stay, aside, trying.workspace);
    stay.open();
    const files = aside === null ? writer.files : null;
    const [made, entry] = found === null ? finish(NOT_ASIDE, files, deserted(tried)) : finish(found, files);
    report = made;
    await writer.append(entry);
    if (aside !== null && found !== null && found.commit !== null) aside.commit = found.commit;
  }
  if (report === undefined) throw new TypeError("a checkpoint was saved without its entries");
  writer.tell({ kind: "step_finished", step: name, replayed: false });
  return report;
}

type Found = Pick<AgentReport, "changed" | "commit" | "aside">;

const NOT_ASIDE: Found = { changed: null, commit: null, aside: null };

/** Pinned before the journal names it. null: the folder is gone. */
async function foundAside({ writer }: StageExecution, aside: OpenAside, workspace: Workspace): Promise<Found | null> {
  const { parts, run } = writer;
  const asides = requireAsides(writer, aside.name);
  const look = await workspace.look(snapshotParams(parts)).catch((error: unknown) => {
    if (error instanceof HoldfastError && error.code === "WORKSPACE_MISSING") return null;
    throw error;
  });
  if (look === null) return null;
  const { tree, commit, skipped } = look;
  await asides.pin({ run: run.id, commit });
  const changed = tree !== (await asides.treeOf(aside.commit));
  return { changed, commit, aside: { name: aside.name, from: aside.commit, skipped } };
}

/** Who takes the folder away that it works in has done nothing, whatever it says; to fail over it each time would be the end of the run. */
function deserted(tried: CallAttempt): CallAttempt {
  const { outcome } = tried;
  if (outcome.kind === "failed") return tried;
  const { session, usage } = outcome;
  const message = "The folder that it worked in is gone, and its work with it";
  const failed = { kind: "failed", cause: "crash", message, hint: null, until: null, instant: false } as const;
  return { ...tried, outcome: { ...failed, session, usage } };
}

/** Everything that the call was to leave is there. */
function isComplete({ collected }: Pick<AgentReport, "collected">): boolean {
  const texts = Object.values(collected);
  return texts.length > 0 && texts.every((text) => text !== null);
}

async function collectOutputs(
  { writer }: StageExecution,
  { call, workspace }: { readonly call: AgentCall; readonly workspace: Workspace },
): Promise<Pick<AgentReport, "collected" | "uncollected">> {
  const outputs = writer.parts.outputs(workspace.root);
  const collected: Record<string, string | null> = {};
  const uncollected: Record<string, string> = {};
  for (const path of call.collect ?? []) {
    const text = await outputs.read(path);
    collected[path] = text === null ? null : await maskAndReport(writer, path, text);
    const why = collected[path] === null ? await outputs.refusal(path) : null;
    if (why !== null) uncollected[path] = why;
  }
  return { collected, uncollected };
}

/** Text that an agent left for others: secrets in it are masked, and the journal says so. */
export async function maskAndReport(writer: RunSession, what: string, text: string): Promise<string> {
  const { mask, find } = writer.parts.masking ?? { mask: maskSecrets, find: findSecrets };
  const masked = mask(text);
  if (masked === text) return text;
  const kinds = [...new Set(find(text).map(({ kind }) => kind))].join(", ") || "secret";
  const told = `${what} held what looks like a secret (${kinds}). It is masked as ***.`;
  await writer.append({ kind: "note", body: { text: told } });
  writer.tell({ kind: "note", text: told });
  return masked;
}

function reportOf(
  { outcome, milliseconds, checkout }: CallAttempt,
  found: Found & Pick<AgentReport, "collected" | "uncollected">,
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
  };
  const captured: Json = capture(report);
  // A capture has the shape of what it was taken from.
  return captured as AgentReport;
}

/** A call of an agent while it is carried through its tries. */
export interface ActiveCall {
  readonly call: AgentCall;
  /** What the call itself, or the run, names: `provider:model`. */
  readonly own: string;
  /** Who has it in hand; another one once it fell back. */
  agent: Agent;
  model: string | null;
  /** Of an aside, as the try found or made it. */
  workspace: Workspace;
  /** Does it change the run's own? */
  readonly files: boolean;
  readonly aside: OpenAside | null;
  readonly estimate: Amounts;
  /** The user's main checkout before the first try of this process; undefined: not looked at yet. */
  checkout?: CheckoutState | null;
  /** Has a session been given up since this process took the call up? */
  gaveUp: boolean;
}

export function beginCall(stay: StageExecution, call: AgentCall, aside: OpenAside | null): ActiveCall {
  const { parts, workspace, config, run } = stay.writer;
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
    agent: parts.agent(provider),
    model,
    workspace,
    files: aside === null && (call.changesFiles ?? true),
    aside,
    estimate: call.estimate ?? NOTHING,
    gaveUp: false,
  };
  chooseCallAgent(stay, trying);
  return trying;
}

/** As the record says, also after a kill: the one that the call fell back to, else its own. */
export function chooseCallAgent(stay: StageExecution, trying: ActiveCall): void {
  const { parts, config, errors } = stay.writer;
  const { provider, model } = chooseAgent(fallbackOf(own(errors, trying.call.name)) ?? trying.own, config);
  trying.agent = parts.agent(provider);
  trying.model = model;
}

/** The user's main checkout now; null: it is not watched. A checkout that cannot be read never fails a call. */
export async function watchCheckout(writer: RunSession, runRoot: string): Promise<CheckoutState | null> {
  const { workspaces, mainCheckout } = writer.parts;
  if (workspaces === null || mainCheckout === undefined) return null;
  return await workspaces.mainCheckout(runRoot).catch((error: unknown) => {
    writer.tell({ kind: "note", text: `The main checkout cannot be watched: ${reasonOf(error)}` });
    return null;
  });
}

/**
 * The checkout as it was before the first try of a call, in a file until the call is concluded: the next process compares with it when it adopts a result or
 * calls again. Names and values, so that it is plain JSON.
 */
interface KeptCheckout {
  readonly root: string;
  readonly before: readonly (readonly [string, string])[];
  /** After the last failed try; null: no try has ended. */
  readonly after: readonly (readonly [string, string])[] | null;
  /** The change between the two is part of a question to the user. */
  readonly isAsked: boolean;
}

/** Before a try. What a failed try changed still counts; what changed between that try and this one is the user's own. */
export async function openCheckout(writer: RunSession, { call, workspace }: ActiveCall): Promise<CheckoutState | null> {
  const kept = readKept(writer, call.name);
  const now = await watchCheckout(writer, workspace.root);
  if (now === null) return null;
  const state = kept?.root === now.root ? baseline(kept, now.state) : now.state;
  keep(writer, call.name, { root: now.root, before: [...state], after: null, isAsked: false });
  return { root: now.root, state };
}

function baseline({ before, after }: KeptCheckout, now: CheckoutState["state"]): CheckoutState["state"] {
  // The process died in the try: nothing shows when a change was made.
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

/** Before the call whose result is adopted, as the process that died had written it; null: it was not watched. */
export function checkoutBefore(writer: RunSession, step: string): CheckoutState | null {
  const kept = readKept(writer, step);
  return kept === null ? null : { root: kept.root, state: new Map(kept.before) };
}

/** After a failed try. */
export function storeFailedAttempt(
  writer: RunSession,
  step: string,
  { before, after }: { readonly before: CheckoutState | null; readonly after: CheckoutState | null },
): void {
  if (before === null || after === null) return;
  keep(writer, step, { root: before.root, before: [...before.state], after: [...after.state], isAsked: false });
}

/** Once the journal has the result of the call. */
export function forgetCheckout(writer: RunSession, step: string): void {
  answerFile(writer, fileStep(step)).remove();
}

/**
 * Before each try: a change that a failed try made is asked about before the agent is called again, also by a process that resumes the run later. Once a
 * call; a further change is part of the question at its end.
 */
export async function askAboutFailedAttempt(stay: StageExecution, trying: ActiveCall): Promise<void> {
  const { writer } = stay;
  const { call } = trying;
  const name = failedTryStep(call);
  const kept = readKept(writer, call.name);
  if (stay.recall(name) !== undefined) {
    if (kept?.isAsked !== true) return;
    // Accepted: the next try begins with the checkout as it is now.
    forgetCheckout(writer, call.name);
    delete trying.checkout;
    return;
  }
  if (kept === null || kept.after === null || writer.parts.mainCheckout !== "ask") return;
  const { root, before, after } = kept;
  const change = compareCheckouts({ root, state: new Map(before) }, { root, state: new Map(after) });
  if (change === null) return;
  keep(writer, call.name, { ...kept, isAsked: true });
  stay.asked.add(change.digest);
  await decide(stay, { name, question: question(call, change), options: ["continue"] });
}

/** The answer about failed tries is a step of the visit, which every later process must know of. */
export function readFailedAttempt(stay: StageExecution, call: AgentCall): void {
  stay.recall(failedTryStep(call));
}

export function failedTryStep({ name }: AgentCall): string {
  return `${name}:checkout-of-failed-try`;
}

function fileStep(step: string): string {
  return `${step}:checkout`;
}

function keep(writer: RunSession, step: string, kept: KeptCheckout): void {
  answerFile(writer, fileStep(step)).write(JSON.stringify(kept));
}

function readKept(writer: RunSession, step: string): KeptCheckout | null {
  const text = answerFile(writer, fileStep(step)).read();
  if (text === null) return null;
  try {
    // Written whole, by keep of this version.
    return JSON.parse(text) as KeptCheckout;
  } catch {
    return null;
  }
}

function changedNames(before: CheckoutState["state"], after: CheckoutState["state"]): readonly string[] {
  return [...new Set([...before.keys(), ...after.keys()])].filter((name) => before.get(name) !== after.get(name));
}

/** What changed in it during the call; null: nothing. */
export function compareCheckouts(before: CheckoutState | null, after: CheckoutState | null): CheckoutChange | null {
  if (before === null || after === null || before.root !== after.root) return null;
  const names = changedNames(before.state, after.state);
  if (names.length === 0) return null;
  const changes = names.toSorted().map((name) => `${name}\0${before.state.get(name)}\0${after.state.get(name)}`);
  return {
    root: before.root,
    paths: names.map((name) => name.replace(/^file /, "")).slice(0, MOST_PATHS),
    more: Math.max(0, names.length - MOST_PATHS),
    digest: pureSha256(changes.join("\n")),
  };
}

const MOST_PATHS = 20;

/** For people. */
export function checkoutText(call: AgentCall, { root, paths, more }: CheckoutChange): string {
  const rest = more === 0 ? "" : ` and ${more} more`;
  return `The main checkout ${root} changed during the call of the agent (${call.name}): ${paths.join(", ")}${rest}`;
}

/**
 * Asks once about each distinct change. The change is part of the call's recorded result, so a process that takes the run up later asks the same, and the
 * answer is a step of the visit. Where changes are only reported, nothing waits.
 */
export async function askAboutCheckoutChange(
  stay: StageExecution,
  call: AgentCall,
  report: AgentReport,
): Promise<void> {
  const { checkout } = report;
  if (checkout === undefined) return;
  const name = `${call.name}:checkout`;
  const isAnswered = Object.hasOwn(stay.writer.steps, name);
  if (!isAnswered && (stay.writer.parts.mainCheckout !== "ask" || stay.asked.has(checkout.digest))) return;
  stay.asked.add(checkout.digest);
  await decide(stay, {
    name,
    question: question(call, checkout),
    options: ["continue"],
  });
}

function question(call: AgentCall, change: CheckoutChange): string {
  return `${checkoutText(call, change)}. The run's own files are in its worktree, and Holdfast leaves your checkout as it is: look at it with \`git -C ${change.root} status\`. If you made these changes yourself, or want to keep them, answer continue.`;
}
