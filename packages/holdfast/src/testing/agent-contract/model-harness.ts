import type { Agent } from "../../ports/agent.ts";
import type { ModelServer } from "../model-server/model-server.ts";
import type { AgentHarness } from "./harness.ts";
import { modelScriptOf } from "./model-steps.ts";
import { withEnvironment } from "./with-environment.ts";

type Tools = Pick<Parameters<typeof modelScriptOf>[0], "write" | "shell" | "isSilent">;

/** A real agent whose model says what a case wants of it. */
export function modelHarness(
  scene: {
    readonly server: Pick<ModelServer, "play">;
    readonly agent: Agent;
    readonly cwd: string;
    readonly env: Readonly<Record<string, string>>;
  },
  params: Tools & Omit<AgentHarness, "agent" | "cwd" | "behave"> & { readonly model: string },
): AgentHarness {
  const { server, agent, cwd, env } = scene;
  const { write, shell, isSilent = false, model, ...rest } = params;
  return {
    ...rest,
    agent: { ...agent, probe: () => withEnvironment(env, () => agent.probe()) },
    cwd,
    behave(behaviour) {
      server.play(modelScriptOf({ behaviour, cwd, write, shell, isSilent }));
      return Promise.resolve(model);
    },
  };
}
