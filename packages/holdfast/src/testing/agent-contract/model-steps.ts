import { join } from "node:path";
import type { ModelScript, ModelStep, ModelTool } from "../model-server/model-script.ts";
import type { AgentBehaviour } from "./harness.ts";

/** A behaviour as what a model says to an agent that has a tool for files and one for shell commands. */
export function modelScriptOf(params: {
  readonly behaviour: AgentBehaviour;
  readonly cwd: string;
  readonly write: (path: string, text: string) => ModelTool;
  readonly shell: (command: string) => ModelTool;
  /** The agent tells an answer when it is whole: the signs of life are its tool calls. */
  readonly isSilent?: boolean;
}): ModelScript {
  const { write, chatter, orphan, usage, hang, reply, exit } = params.behaviour;
  const spent = { usage: { input: usage?.input ?? 0, output: usage?.output ?? 0 } };
  const free = { usage: { input: 0, output: 0 } };
  const isStreamed = params.isSilent !== true;
  const lines = chatter === undefined || !isStreamed ? "" : "busy\n".repeat(chatter.lines);
  const pace = chatter === undefined || !isStreamed ? {} : { eventDelayMs: chatter.everyMs };
  const steps: ModelStep[] = [];
  if (write !== undefined) steps.push({ tool: params.write(join(params.cwd, write.path), write.text), ...free });
  if (chatter !== undefined && !isStreamed) {
    const calls = Math.min(chatter.lines, MAX_CALLS, Math.ceil((chatter.lines * chatter.everyMs) / 500));
    const tool = params.shell(`sleep ${(chatter.lines * chatter.everyMs) / 1000 / calls}`);
    steps.push(...Array.from({ length: calls }, () => ({ tool, ...free })));
  }
  if (orphan !== undefined) steps.push({ tool: params.shell(orphanCommand(orphan)), ...free });
  if (hang === true) steps.push({ fault: { kind: "hang" } });
  else if ((exit ?? 0) === 0) steps.push({ text: `${lines}${reply ?? ""}`, ...pace, ...spent });
  // Some work, and then a refusal for which the program has no answer but to give up.
  else {
    steps.push({ text: reply ?? "", tool: params.shell("true"), ...spent });
    steps.push({ fault: { kind: "status", status: 400 } });
  }
  return { rules: [{ match: /(?:)/, steps }] };
}

const MAX_CALLS = 100;

/** In a session of its own, deaf to SIGTERM, holding no pipe. */
function orphanCommand({ path, afterMs }: { readonly path: string; readonly afterMs: number }): string {
  const late = `trap "" TERM; : > .deaf; sleep ${afterMs / 1000}; : > ${path}; sleep 600`;
  return `setsid sh -c '${late}' >/dev/null 2>&1 </dev/null & while [ ! -e .deaf ]; do sleep 0.01; done`;
}
