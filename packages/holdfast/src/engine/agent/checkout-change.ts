import type { CheckoutState } from "../../ports/workspace.ts";
import { pureSha256 } from "../../core/sha256.ts";
import type { RunSession } from "../conduct/run-session.ts";
import type { AgentCall, AgentReport, CheckoutChange } from "../stage-context.ts";
import { decide } from "../stage/decide.ts";
import type { Stay } from "../stage/stay.ts";
import { reasonOf } from "../reason-of.ts";
import { answerFile } from "./kept-answer.ts";
import type { Trying } from "./trying.ts";

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
export async function openCheckout(writer: RunSession, { call, workspace }: Trying): Promise<CheckoutState | null> {
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
export function keepFailedTry(
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
export async function askAboutFailedTry(stay: Stay, trying: Trying): Promise<void> {
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
export function recallFailedTry(stay: Stay, call: AgentCall): void {
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
export async function askAboutCheckout(stay: Stay, call: AgentCall, report: AgentReport): Promise<void> {
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
