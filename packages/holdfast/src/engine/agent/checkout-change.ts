import type { CheckoutState } from "../../ports/workspace.ts";
import { pureSha256 } from "../../core/sha256.ts";
import type { RunWriter } from "../conduct/run-writer.ts";
import type { AgentCall, AgentReport, CheckoutChange } from "../stage-context.ts";
import { decide } from "../stage/decide.ts";
import type { Stay } from "../stage/stay.ts";
import { reasonOf } from "../reason-of.ts";

/** The user's main checkout before a call; null: it is not watched. A checkout that cannot be read never fails a call. */
export async function watchCheckout(writer: RunWriter, runRoot: string): Promise<CheckoutState | null> {
  const { workspaces, mainCheckout } = writer.parts;
  if (workspaces === null || mainCheckout === undefined) return null;
  return await workspaces.mainCheckout(runRoot).catch((error: unknown) => {
    writer.tell({ kind: "note", text: `The main checkout cannot be watched: ${reasonOf(error)}` });
    return null;
  });
}

/** What changed in it during the call; null: nothing. */
export function compareCheckouts(before: CheckoutState | null, after: CheckoutState | null): CheckoutChange | null {
  if (before === null || after === null || before.root !== after.root) return null;
  const names = [...new Set([...before.state.keys(), ...after.state.keys()])].filter(
    (name) => before.state.get(name) !== after.state.get(name),
  );
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
  const isAnswered = stay.writer.steps.has(name);
  if (!isAnswered && (stay.writer.parts.mainCheckout !== "ask" || stay.asked.has(checkout.digest))) return;
  stay.asked.add(checkout.digest);
  await decide(stay, {
    name,
    question: `${checkoutText(call, checkout)}. The run's own files are in its worktree, and Holdfast leaves your checkout as it is: look at it with \`git -C ${checkout.root} status\`. If you made these changes yourself, or want to keep them, answer continue.`,
    options: ["continue"],
  });
}
