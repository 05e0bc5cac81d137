import { NOTHING } from "../../core/position/budget.ts";
import { fallbackOf } from "../../core/error-policy/call-errors.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Amounts } from "../../core/position/position.ts";
import { own } from "../../core/state.ts";
import type { Agent } from "../../ports/agent.ts";
import type { CheckoutState, Workspace } from "../../ports/workspace.ts";
import { chooseAgent } from "./agent-choice.ts";
import type { OpenAside } from "../asides/asides.ts";
import type { AgentCall } from "../stage-context.ts";
import type { Stay } from "../stage/stay.ts";

/** A call of an agent while it is carried through its tries. */
export interface Trying {
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

export function tryingOf(stay: Stay, call: AgentCall, aside: OpenAside | null): Trying {
  const { parts, workspace, config, run } = stay.writer;
  const { provider, model } = chooseAgent(call.model, config);
  if (workspace === undefined) {
    throw new HoldfastError({
      code: "WORKSPACE_MISSING",
      message: `Step ${call.name} of run ${run.id} calls an agent, and the run has no worktree to work in`,
      hint: "Begin the run with a worktree.",
    });
  }
  const trying: Trying = {
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
  takeAgent(stay, trying);
  return trying;
}

/** As the record says, also after a kill: the one that the call fell back to, else its own. */
export function takeAgent(stay: Stay, trying: Trying): void {
  const { parts, config, errors } = stay.writer;
  const { provider, model } = chooseAgent(fallbackOf(own(errors, trying.call.name)) ?? trying.own, config);
  trying.agent = parts.agent(provider);
  trying.model = model;
}
