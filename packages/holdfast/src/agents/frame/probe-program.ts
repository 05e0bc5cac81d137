import { AGENT_VERSIONS, judgeVersion } from "../../core/agent/agent-versions.ts";
import type { AgentProbe } from "../../ports/agent.ts";
import { childEnvironment } from "../../system/child-environment.ts";
import { findProgram } from "../../system/probe.ts";
import { randomId } from "../../system/ids.ts";
import { runProcess } from "../../system/subprocess.ts";
import { passedEnvironment } from "../passed-environment.ts";
import type { CliDialect } from "./dialect.ts";

/** Is it there, and does it answer? */
export async function probeProgram<State>(
  dialect: CliDialect<State>,
  named: readonly string[] | undefined,
): Promise<AgentProbe> {
  const { title, program, install } = dialect;
  const found = findProgram(program);
  if (found === undefined) {
    const problem = `There is no ${program} on PATH`;
    return { installed: false, version: null, problem, hint: install };
  }
  const [command, ...before] = dialect.native?.(found) ?? [found];
  const base = passedEnvironment({ agent: dialect.name, task: { model: null, env: {} }, named });
  const env = childEnvironment({ base, mark: `probe-${randomId()}`, env: dialect.environment ?? {} });
  try {
    const probe = await dialect.probe((args) =>
      runProcess({ command, args: [...before, ...args], cwd: "/", env, timeoutMs: PROBE_MS }),
    );
    const known = AGENT_VERSIONS[dialect.name];
    if (known === undefined) return probe;
    switch (judgeVersion(dialect.name, probe.version)) {
      case "ok":
        return probe;
      case "too_old": {
        const problem = `Version ${probe.version ?? ""} is too old: Holdfast needs ${known.minimum} or newer (${known.needs})`;
        return { ...probe, problem, hint: `Upgrade it: ${known.upgrade}` };
      }
      case "unknown": {
        if (probe.problem !== null) return probe;
        const problem = `Its version cannot be read; Holdfast needs ${known.minimum} or newer`;
        return { ...probe, problem, hint: `Run ${program} --version by hand.` };
      }
    }
  } catch (error) {
    const problem = `${title} could not be asked: ${error instanceof Error ? error.message : String(error)}`;
    return { installed: true, version: null, problem, hint: `Run ${program} --version by hand.` };
  }
}

/** Some take seconds to say their version, on a machine that is busy many. */
const PROBE_MS = 30_000;
