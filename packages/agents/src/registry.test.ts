import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { AGENT_LIST, AGENT_NAMES, type Agent } from "@holdfast/core/agent";
import { systemClock } from "@holdfast/platform/clock";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { type AgentBehaviour, type AgentHarness, agentContract } from "@holdfast/testing/agent-contract";
import { createAgentRegistry } from "./registry.ts";

describe("registry", () => {
  const registry = createAgentRegistry({ clock: systemClock, directory: "/" });

  test("every name returns the agent of that name", () => {
    expect(registry.names.map((name) => registry.agent(name).name)).toEqual(registry.names);
    expect(registry.names).toEqual(AGENT_NAMES);
  });

  test("an unknown name is refused with the known names and a suggestion", () => {
    expect(() => registry.agent("scriptd")).toThrow(
      expect.objectContaining({
        code: "USAGE",
        message: 'There is no agent "scriptd"',
        hint: `Did you mean scripted? Give provider:model with one of ${AGENT_LIST}; \`holdfast agents\` shows which are ready.`,
      }),
    );
    expect(() => registry.agent("constructor")).toThrow(expect.objectContaining({ code: "USAGE" }));
  });
});

describe("contract", () => {
  /** How to make each kind of agent show a behaviour. */
  const TEACH: Readonly<Record<string, (directory: string, behaviour: AgentBehaviour) => string>> = {
    command: (directory, behaviour) => {
      const path = join(directory, "behave.sh");
      writeFileSync(path, shellScript(behaviour));
      return `exec sh ${path}`;
    },
    scripted: (directory, behaviour) => {
      const path = join(directory, "script.json");
      writeFileSync(path, JSON.stringify({ answers: [answerOf(behaviour)] }));
      return path;
    },
  };

  for (const [name, teacher] of [
    ["command", "command"],
    ["scripted", "scripted"],
    ["scripted-session", "scripted"],
  ] as const) {
    describe(`the ${name} agent keeps the contract`, () => {
      for (const { name: promise, skip, run } of agentContract) {
        const agent = createAgentRegistry({ clock: systemClock, directory: "/" }).agent(name);
        const why = skip?.(agent) ?? null;
        // Most tests wait for a process. The one that changes our own environment runs alone.
        const concurrent = !promise.startsWith("the child has the allowed part");
        test.skipIf(why !== null)(why === null ? promise : `${promise} (${why})`, { concurrent }, async (context) => {
          await run(harnessOf({ agent, teach: TEACH[teacher], later: context.onTestFinished }));
        });
      }
    });
  }

  function harnessOf(params: {
    readonly agent: Agent;
    readonly teach: ((directory: string, behaviour: AgentBehaviour) => string) | undefined;
    readonly later: (remove: () => void) => void;
  }): AgentHarness {
    const instructions = scratchDirectory(params.later);
    return {
      agent: params.agent,
      cwd: scratchDirectory(params.later),
      behave: (behaviour) => Promise.resolve(params.teach?.(instructions, behaviour) ?? ""),
      missingModel: "no-such-program-or-script-here",
    };
  }

  function shellScript(behaviour: AgentBehaviour): string {
    const { write, chatter, orphan, hang, reply, exit } = behaviour;
    return [
      ...(write === undefined ? [] : [`printf %s ${quote(write.text)} > ${quote(write.path)}`]),
      ...(chatter === undefined
        ? []
        : [`i=0; while [ $i -lt ${chatter.lines} ]; do echo busy; sleep ${chatter.everyMs / 1000}; i=$((i+1)); done`]),
      ...(orphan === undefined
        ? []
        : [
            `setsid sh -c 'trap "" TERM; : > .deaf; sleep ${orphan.afterMs / 1000}; : > ${orphan.path}; sleep 600' >/dev/null 2>&1 </dev/null &`,
            "while [ ! -e .deaf ]; do sleep 0.01; done",
          ]),
      ...(hang === true ? ["sleep 600"] : []),
      ...(reply === undefined ? [] : [`printf '%s\\n' ${quote(reply)}`]),
      `exit ${exit ?? 0}`,
    ].join("\n");
  }

  function quote(text: string): string {
    return `'${text.replaceAll("'", `'\\''`)}'`;
  }

  function answerOf(behaviour: AgentBehaviour): unknown {
    const { write, chatter, orphan, usage, hang, reply, exit } = behaviour;
    const beat = chatter === undefined ? [] : Array.from({ length: Math.min(chatter.lines, 200) }, (_, line) => line);
    return {
      edits: [
        ...(write === undefined ? [] : [{ do: "write", ...write }]),
        ...beat.flatMap((line) => [
          { do: "write", path: "beat", text: String(line) },
          { do: "wait", ms: chatter?.everyMs ?? 0 },
        ]),
      ],
      ...(orphan === undefined ? {} : { spawn: { ignoreTerm: true, ...orphan } }),
      ...(usage === undefined ? {} : { usage }),
      ...(hang === undefined ? {} : { hang }),
      ...(reply === undefined ? {} : { reply }),
      ...(exit === undefined ? {} : { exit }),
    };
  }
});
