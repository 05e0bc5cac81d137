import type { AgentEvent, AgentTask } from "../ports/agent.ts";
import { randomId } from "../system/ids.ts";
import { readProcessTable } from "../system/process-table.ts";

/** A task for one call, and what it told. */
export function agentCall(change: Partial<AgentTask> & Pick<AgentTask, "cwd">): AgentCallRecord {
  const events: AgentEvent[] = [];
  const task: AgentTask = {
    mark: `test-${randomId()}/1/agent`,
    prompt: "Do it.",
    role: "impl",
    model: null,
    session: null,
    yolo: true,
    timeoutMs: null,
    idleMs: null,
    iteration: 1,
    attempt: 1,
    env: {},
    signal: new AbortController().signal,
    onEvent: (event) => events.push(event),
    ...change,
  };
  return { task, events, processes: () => processesOf(task.mark) };
}

export interface AgentCallRecord {
  readonly task: AgentTask;
  readonly events: readonly AgentEvent[];
  /** Of the call, as they are now. */
  processes(): readonly number[];
}

function processesOf(mark: string): readonly number[] {
  return (readProcessTable()?.live ?? []).filter((entry) => entry.mark === mark).map((entry) => entry.pid);
}
