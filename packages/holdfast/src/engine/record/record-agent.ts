import type { ExecutionConfig, FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import type { AskedAgent, FileMark, RecordedAgent } from "../../core/replay/recorded-call.ts";
import type { Agent } from "../../ports/agent.ts";
import { chooseAgent } from "../agent/agent-choice.ts";
import type { RunSession } from "../conduct/run-session.ts";
import type { AgentCall } from "../stage-context.ts";
import type { Hearing } from "./tape.ts";

/** One try of an agent, as far as it is known when it has ended; the files that it left come with the checkpoint. */
export interface AgentTake {
  readonly record: Omit<RecordedAgent, "files" | "failed">;
  readonly before: FilesPlane | null;
}

export function askedOf(
  call: AgentCall,
  params: {
    readonly config: Pick<ExecutionConfig, "agent" | "model">;
    readonly iteration: number;
    readonly mask: (text: string) => string;
  },
): AskedAgent {
  const { mask, iteration } = params;
  // Who took over from it is none of the workflow's business.
  const { provider: agent, model } = chooseAgent(call.model, params.config);
  const { role, yolo, timeoutMs = null, collect = [] } = call;
  const works = call.aside !== undefined ? "aside" : (call.changesFiles ?? true) ? "files" : "reads";
  const env = Object.fromEntries(Object.entries(call.env ?? {}).map(([name, value]) => [name, mask(value)]));
  return {
    agent,
    model,
    iteration,
    role,
    prompt: mask(call.prompt),
    yolo,
    timeoutMs,
    env,
    collect: [...collect],
    works,
  };
}

/** null: the run is not recorded. */
export async function takeAgent(
  writer: RunSession,
  params: {
    readonly call: AgentCall;
    readonly agent: Agent;
    readonly model: string | null;
    readonly attempt: number;
    readonly opened: { readonly prompt: string; readonly session: string | null; readonly forkAt: string | null };
    readonly hearing: Hearing;
    readonly before: FilesPlane | null;
    readonly milliseconds: number;
  },
): Promise<AgentTake | null> {
  const { tape } = writer.parts;
  if (tape === undefined) return null;
  const { call, agent, model, opened, hearing } = params;
  const { seed } = writer.config;
  const { session, forkAt } = opened;
  return {
    before: params.before,
    record: {
      kind: "agent",
      visit: writer.visit,
      step: call.name,
      attempt: params.attempt,
      asked: askedOf(call, { config: writer.config, iteration: writer.iteration, mask: tape.mask }),
      sent: { prompt: opened.prompt === call.prompt ? null : tape.mask(opened.prompt), session, forkAt },
      ran: {
        agent: agent.name,
        model,
        version: await tape.version(agent),
        argv: hearing.argv,
        environment: tape.environment(),
        seed: seed === null ? null : { value: seed, how: agent.capabilities.seed === true ? "taken" : "not_taken" },
      },
      heard: hearing.heard(),
      milliseconds: params.milliseconds,
    },
  };
}

/** On the tape, for the commit that is about to be made. */
export function noteAgent(
  writer: RunSession,
  take: AgentTake | null,
  came: { readonly after: FilesPlane | null; readonly failed: RecordedAgent["failed"] },
): void {
  if (take === null) return;
  const files = { before: markOf(take.before), after: markOf(came.after) };
  writer.parts.tape?.note({ ...take.record, files, failed: came.failed });
}

function markOf(files: FilesPlane | null): FileMark | null {
  if (files === null) return null;
  const { tree, commit, head, branch } = files;
  return { tree, commit, head, branch };
}
