import { chmodSync } from "node:fs";
import { join } from "node:path";
import { CONFIG_FILE, findConfig, findRepositoryRoot, inGitDirectory } from "../../../config/load-config.ts";
import { splitAgent } from "../../../core/agent/agent-names.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import { writeDurable } from "../../../system/durable-file.ts";
import { readRegularFile } from "../../../system/regular-file.ts";
import type { Input, Shell } from "../../command.ts";
import { escapeText } from "../../output/escape-text.ts";
import { modelOf } from "../run/read-request.ts";
import { guessGate } from "./guess-gate.ts";
import { planSetup, readyAgents, type Chosen, type Found, type SetupPlan } from "./plan-setup.ts";
import type { setupSpec } from "./spec.ts";
import { foundText } from "./view.ts";

type SetupInput = Input<(typeof setupSpec)["flags"]>;

export async function run(shell: Shell, input: SetupInput): Promise<Exit> {
  if (inGitDirectory(shell.cwd))
    throw new HoldfastError({
      code: "WORKSPACE_MISSING",
      message: `There is no worktree in ${shell.cwd}: it is a bare repository or a git directory`,
      hint: "Run this in a worktree of it; settings can also be given as flags and in the environment.",
    });
  const root = findRepositoryRoot(shell.cwd) ?? shell.cwd;
  const path = findConfig(shell.cwd) ?? join(root, CONFIG_FILE);
  const typed = await readFlags(input);
  const found = await look(shell, root, typed.forge);
  const asks = shell.canAsk && !input.on("yes") && !input.on("dry-run");
  const chosen = asks ? await ask(shell, found, typed) : typed;
  const plan = planSetup(found, chosen);
  const before = textOf(path);
  const { editConfig } = await import("../../../config/edit-config.ts");
  const text = plan.edits.length === 0 ? before : (before === "" ? HEADER : "") + editConfig(before, plan.edits);
  const isWritten = plan.edits.length > 0 && (await mayWrite(shell, input, { path, text, found, plan, asks }));
  if (isWritten) {
    write(path, text);
    // The user chose these values a moment ago. What else the file says still needs consent.
    const keys = new Set(plan.edits.map(({ key }) => key.join(".")));
    const items = (await shell.consent.items()).map(({ item }) => item);
    shell.consent.remember(items.filter(({ key }) => keys.has(key)));
  }
  const changed = plan.edits.length > 0;
  shell.print({
    json: () => ({
      path,
      written: isWritten,
      changed,
      text,
      agent: plan.agent,
      gate: plan.gate,
      forge: found.forge,
      agents: found.agents.map(({ name, probe }) => ({ name, ...probe })),
    }),
    text: (page) => {
      const seen = asks ? "" : `${foundText(found, plan, page)}\n`;
      const file = isWritten || !changed ? "" : `${escapeText(path)} would be:\n\n${text}`;
      const end = changed ? file : `${escapeText(path)} needs no change.\n`;
      return `${seen}${isWritten ? `Wrote ${escapeText(path)}\n` : end}`;
    },
  });
  return conclude(shell, input, { isWritten, changed, asks, plan });
}

/** What is left to say, and the status. */
function conclude(
  shell: Shell,
  input: SetupInput,
  state: { readonly isWritten: boolean; readonly changed: boolean; readonly asks: boolean; readonly plan: SetupPlan },
): Exit {
  const { program } = shell.talk;
  if (state.changed && !state.isWritten && !input.on("dry-run")) {
    if (state.asks) {
      shell.say("Not written; nothing was changed.");
      return "decision";
    }
    if (shell.json) return "usage";
    throw usage("Nobody can be asked here, so nothing was written", "Say --yes to write it as it is shown.");
  }
  if (!input.on("dry-run"))
    shell.say(
      state.plan.agent === null
        ? `No agent is ready. See what they need: ${program} agents`
        : `Try the agent: ${program} agents test ${escapeText(state.plan.agent)}\nThen: ${program} run ISSUE --dry-run`,
    );
  return "done";
}

const HEADER = "# Written by `holdfast setup`. All settings that there are: holdfast init --dry-run\n";

const FORGES = ["auto", "github", "gitlab", "local", "none"] as const;

/** Names are checked before anything is looked for: an agent that there is not would be found out only by a run. */
async function readFlags(input: SetupInput): Promise<Chosen> {
  const { checkAgentName } = await import("../../../app/observe-agents.ts");
  const agentOf = (flag: "agent" | "impl-model" | "review-model"): string | undefined => {
    const named = modelOf(flag, input.text(flag));
    if (named !== undefined) checkAgentName(splitAgent(named).provider);
    return named;
  };
  return {
    agent: agentOf("agent"),
    implModel: agentOf("impl-model"),
    reviewModel: agentOf("review-model"),
    forge: FORGES.find((kind) => kind === input.text("forge")),
    gate: input.text("gate"),
  };
}

async function look(shell: Shell, root: string, kind: Chosen["forge"]): Promise<Found> {
  const [{ observeAgents }, { observeForgeLogin }, config] = await Promise.all([
    import("../../../app/observe-agents.ts"),
    import("../../../app/observe-forge-login.ts"),
    shell.config(),
  ]);
  const { work } = config.settings;
  const [agents, forge] = await Promise.all([
    observeAgents(),
    observeForgeLogin({
      choice: { ...work.forge, kind: kind ?? work.forge.kind },
      folder: root,
      env: { ...shell.env },
    }),
  ]);
  return { agents, forge, gate: guessGate((name) => textOf(join(root, name))), now: work };
}

/** Only what no flag has answered, and of the agents only where there is a choice. */
async function ask(shell: Shell, found: Found, typed: Chosen): Promise<Chosen> {
  shell.say(foundText(found, planSetup(found, typed), shell.talk));
  const { checkAgentName } = await import("../../../app/observe-agents.ts");
  const ready = readyAgents(found.agents);
  const proposed = planSetup(found, typed);
  const agent =
    typed.agent === undefined && ready.length > 1
      ? await shell.ask(`Which agent (${ready.join(", ")}, or provider:model)?`, proposed.agent ?? "")
      : typed.agent;
  const gate = typed.gate ?? (await shell.ask("Command that must succeed, or none?", proposed.gate ?? "none"));
  const named = modelOf("agent", agent);
  if (named !== undefined) checkAgentName(splitAgent(named).provider);
  return { ...typed, agent: named, gate };
}

async function mayWrite(
  shell: Shell,
  input: SetupInput,
  file: {
    readonly path: string;
    readonly text: string;
    readonly found: Found;
    readonly plan: SetupPlan;
    readonly asks: boolean;
  },
): Promise<boolean> {
  if (input.on("dry-run")) return false;
  if (input.on("yes")) return true;
  if (!file.asks) return false;
  shell.say(`\n${escapeText(file.path)}:\n\n${file.text}`);
  return (await shell.confirm("Write it?")) === "yes";
}

function textOf(path: string): string {
  try {
    const file = readRegularFile({ path, maxBytes: 1_000_000 });
    return file.kind === "read" ? file.bytes.toString("utf8") : "";
  } catch {
    return "";
  }
}

function write(path: string, text: string): void {
  try {
    writeDurable({ path, data: Buffer.from(text), mode: "replace" });
    // It will be committed and read by others, unlike everything else that is written this way.
    chmodSync(path, 0o666 & ~process.umask());
  } catch (cause) {
    const hint = "Check the directory's permissions and free space.";
    throw new HoldfastError({ code: "IO_FAILED", message: `Cannot write ${path}`, hint, cause });
  }
}

function usage(message: string, hint: string): HoldfastError {
  return new HoldfastError({ code: "USAGE", message, hint });
}
