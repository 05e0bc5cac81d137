/** The `setup` command: detects agent, forge and test command, and writes the config. */
import { chmodSync } from "node:fs";
import { dirname, join } from "node:path";
import { splitAgent } from "@holdfast/core/agent";
import { asRecord, asText } from "@holdfast/core/json";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { fileKind, readRegularFile, writeDurable } from "@holdfast/platform/files";
import type { ObservedAgent } from "../../check-agents.ts";
import { configTemplate } from "../../config/config-template.ts";
import {
  type GuessedCommand,
  VENV_PYTHON,
  findLock,
  guessSetup,
  readPackage,
  readerOf,
} from "../../config/detect-setup.ts";
import type { ConfigEdit } from "../../config/config-template.ts";
import { CONFIG_FILE, findConfig, findRepositoryRoot, inGitDirectory } from "../../config/load-config.ts";
import type { WorkSettings } from "../../config/work-settings.ts";
import type { ObservedForge } from "../../find-forge.ts";
import { firstProgram, programProblem, unnamedAgentOf } from "../../observe-start.ts";
import { NEW_REPOSITORY } from "../../preflight-errors.ts";
import { commandMissing } from "../../preflight-facts.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import type { Page } from "../output/page.ts";
import { escapeText, wrap } from "../output/text.ts";
import { modelOf } from "../run-options.ts";

export const spec = {
  name: "setup",
  summary: "find your agent and forge, and write the config file",
  details: [
    "Looks for installed agents, a forge login, the command that installs this project's dependencies and the command that tests it, and writes what it found to holdfast.config.yaml. At a terminal it asks which agent and which commands to use. Every question has a flag, and --yes accepts the proposals. Enter accepts a proposal. Without a terminal and without --yes it shows the file and writes nothing (exit status 2). Without any agent that is ready it writes only what flags or answers set. If there are none, it writes nothing and ends with exit status 4 and the command that installs an agent.",
    "An existing file keeps its other settings and its comments. A setting of the file is changed only by a flag.",
    "Holdfast also works without a config file. --defaults writes one that explains every setting.",
  ],
  operands: [],
  consent: "reads",
  flags: {
    agent: {
      type: "text",
      short: "a",
      value: "MODEL",
      about: "the agent: provider or provider:model; see `holdfast agents`",
    },
    "impl-model": { type: "text", value: "MODEL", about: "the agent for implementing" },
    "review-model": { type: "text", value: "MODEL", about: "the agent for reviewing" },
    forge: {
      type: "text",
      value: "KIND",
      about: "where issues and pull requests are; auto detects it from the remote",
      choices: ["auto", "github", "gitlab", "local", "none"],
    },
    setup: {
      type: "text",
      value: "CMD",
      about: 'a shell command that makes a fresh worktree usable, such as "npm ci", or none',
    },
    gate: { type: "text", value: "CMD", about: 'a shell command that must succeed, such as "npm test", or none' },
    defaults: {
      type: "boolean",
      about: "write every setting with its default and an explanation instead; never overwrites a file",
    },
    yes: { type: "boolean", short: "y", about: "do not ask, accept the proposals" },
    "dry-run": { type: "boolean", about: "show what would be written, and write nothing" },
  },
  examples: [
    { line: "holdfast setup", about: "detect, ask, and write the file" },
    { line: "holdfast setup --defaults --dry-run", about: "print every setting with its default" },
    { line: 'holdfast setup --yes --agent claude:opus --gate "make check"', about: "without questions, in a script" },
  ],
  json: '{"path", "written": true | false, "changed": true | false, "text", "agent", "setup", "gate", "forge": {"name", "location", "login", "fix"} or null, "agents": [{"name", "installed", "version", "problem", "hint"}]}; with --defaults {"path", "written", "text"}.',
} as const satisfies CommandSpec;

type SetupInput = Input<(typeof spec)["flags"]>;

export async function run(shell: Shell, input: SetupInput): Promise<Exit> {
  if (inGitDirectory(shell.cwd))
    throw new HoldfastError({
      code: "WORKSPACE_MISSING",
      message: `There is no worktree in ${shell.cwd}: it is a bare repository or a git directory`,
      hint: "Run this in a worktree of the repository. Flags and environment variables also set values.",
    });
  const repository = findRepositoryRoot(shell.cwd);
  const root = repository ?? shell.cwd;
  if (input.on("defaults")) return writeDefaults(shell, input, join(root, CONFIG_FILE));
  const path = findConfig(shell.cwd) ?? join(root, CONFIG_FILE);
  const typed = await readFlags(input, root);
  const found = await observe(shell, root, typed.forge);
  const asks = shell.canAsk && !input.on("yes") && !input.on("dry-run");
  const chosen = asks ? await ask(shell, found, typed, root) : typed;
  const proposed = planSetup(found, chosen);
  // Detected commands alone are no reason to write a file: without an agent no run starts.
  const lacksAgent = proposed.agent === null && !asks && Object.values(typed).every((value) => value === undefined);
  const plan = lacksAgent ? { ...proposed, edits: [] } : proposed;
  const before = textOf(path);
  const { editConfig } = await import("../../config/config-template.ts");
  const text =
    plan.edits.length === 0
      ? before
      : (before === "" ? schemaLine(path) + HEADER : "") + editConfig(before, plan.edits);
  const isWritten = plan.edits.length > 0 && (await mayWrite(shell, input, { path, text, found, plan, asks }));
  if (isWritten) {
    write(path, text, "replace");
    // The user just chose these values. The other settings of the file still need consent.
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
      setup: plan.setup,
      gate: plan.gate,
      forge: found.forge,
      agents: found.agents.map(({ name, probe }) => ({ name, ...probe })),
    }),
    text: (page) => {
      const seen = asks ? "" : `${foundText(found, plan, page)}\n`;
      const file = isWritten || !changed ? "" : `${escapeText(path)} would be:\n\n${text}`;
      const none = before === "" ? "Nothing was written: no agent was found" : `${escapeText(path)} needs no change`;
      const end = changed ? file : `${none}.\n`;
      return `${seen}${isWritten ? `Wrote ${escapeText(path)}\n` : end}`;
    },
  });
  if (repository === null) shell.notify(`${escapeText(root)} is not in a git repository. ${NEW_REPOSITORY}`);
  return conclude(shell, input, { isWritten, changed, asks, plan, found });
}

/** Writes a file that explains every setting. Detects and asks nothing. */
function writeDefaults(shell: Shell, input: SetupInput, path: string): Exit {
  const other = (["agent", "impl-model", "review-model", "forge", "setup", "gate"] as const).find(
    (flag) => input.text(flag) !== undefined,
  );
  if (other !== undefined)
    throw usageError(`--defaults writes the defaults, so --${other} has no effect`, "Leave out one of the two flags.");
  const text = schemaLine(path) + configTemplate();
  if (input.on("dry-run")) {
    shell.print({ json: () => ({ path, written: false, text }), text: () => text, verbatim: true });
    shell.notify(`Would write ${escapeText(path)}`);
    return "done";
  }
  const written = writeNew(path, text);
  shell.print({
    json: () => ({ path, written, text }),
    text: () => (written ? `Wrote ${escapeText(path)}\n` : `${escapeText(path)} exists; nothing was changed.\n`),
  });
  shell.notify(
    written
      ? `Every line is a default: change what you like and delete the rest.\nCheck it with: ${shell.talk.program} config check`
      : `Show the settings in force with: ${shell.talk.program} config`,
  );
  return "done";
}

/** The file system decides atomically whether the file is new, so two processes cannot both create it. */
function writeNew(path: string, text: string): boolean {
  try {
    write(path, text, "create");
    return true;
  } catch (error) {
    const cause = error instanceof HoldfastError ? error.cause : undefined;
    if (cause instanceof Error && "code" in cause && cause.code === "EEXIST") return false;
    throw error;
  }
}

/** Prints the remaining messages and returns the exit status. */
function conclude(
  shell: Shell,
  input: SetupInput,
  state: {
    readonly isWritten: boolean;
    readonly changed: boolean;
    readonly asks: boolean;
    readonly plan: SetupPlan;
    readonly found: Found;
  },
): Exit {
  const { program } = shell.talk;
  if (state.changed && !state.isWritten && !input.on("dry-run")) {
    if (state.asks) {
      shell.notify("Not written; nothing was changed.");
      return "needs_you";
    }
    if (shell.json) return "usage";
    throw usageError("Not a terminal: nothing was written", "Pass --yes to accept.");
  }
  if (input.on("dry-run")) return "done";
  if (state.plan.agent === null) {
    const { hint } = unnamedAgentOf(state.found.agents);
    const own = `Any other program works too: ${program} setup --agent command:PROGRAM`;
    shell.notify(`No agent is ready. ${escapeText(hint)}\n${own}\nShow what each needs: ${program} agents`);
    return state.isWritten ? "done" : "needs_you";
  }
  // The test asks for a file in words, which a program for one purpose need not understand.
  const isCommand = splitAgent(state.plan.agent).provider === "command";
  if (!isCommand) shell.notify(`Test the agent: ${program} agents test ${escapeText(state.plan.agent)}`);
  shell.notify(`${isCommand ? "Next" : "Then"}: ${program} ${firstRun(state.found)}`);
  return "done";
}

/** Without a forge there are no issues. */
export function firstRun({ forge }: Pick<Found, "forge">): string {
  return forge === null ? 'run --task "WHAT TO DO" --dry-run' : "run ISSUE --dry-run";
}

const HEADER = "# Written by `holdfast setup`. All settings: holdfast setup --defaults --dry-run\n";

/** With this line editors complete keys and mark mistakes. Only a package installed in the project has a path that is true for everybody. */
function schemaLine(path: string): string {
  const schema = "node_modules/holdfast/schemas/config.schema.json";
  const isInstalled = fileKind(join(dirname(path), schema)) === "file";
  return isInstalled ? `# yaml-language-server: $schema=./${schema}\n` : "";
}

const FORGES = ["auto", "github", "gitlab", "local", "none"] as const;

/** Checks names before anything is detected: otherwise only a run would find an unknown agent. */
async function readFlags(input: SetupInput, root: string): Promise<Chosen> {
  const agentOf = async (flag: "agent" | "impl-model" | "review-model"): Promise<string | undefined> =>
    await checkAgent(modelOf(flag, input.text(flag)), root);
  return {
    agent: await agentOf("agent"),
    implModel: await agentOf("impl-model"),
    reviewModel: await agentOf("review-model"),
    forge: FORGES.find((kind) => kind === input.text("forge")),
    setup: input.text("setup"),
    gate: input.text("gate"),
  };
}

/** Throws USAGE for an unknown agent, and for a command whose program cannot run. */
async function checkAgent(named: string | undefined, root: string): Promise<string | undefined> {
  if (named === undefined) return undefined;
  const { checkAgentName } = await import("../../check-agents.ts");
  const { provider, model } = splitAgent(named);
  checkAgentName(provider);
  const program = provider === "command" && model !== null ? firstProgram(model) : null;
  const problem = program === null ? null : await programProblem(program, root);
  if (program === null || model === null || problem === null) return named;
  const command = {
    role: "The agent",
    line: model,
    program,
    problem,
    where: "system",
    isAgent: true,
    here: null,
  } as const;
  const { message, hint } = commandMissing(command);
  throw usageError(message, hint ?? "");
}

async function observe(shell: Shell, root: string, kind: Chosen["forge"]): Promise<Found> {
  const [{ observeAgents }, { observeForgeLogin }, config] = await Promise.all([
    import("../../check-agents.ts"),
    import("../../find-forge.ts"),
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
  const read = readerOf(root);
  const now = { ...work, setup: config.settings.workspace.setup };
  return { agents, forge, setup: guessSetup(read), gate: guessGate(read), now };
}

/** Asks only for what no flag has answered, and for agents only if there is a choice. */
async function ask(shell: Shell, found: Found, typed: Chosen, root: string): Promise<Chosen> {
  shell.notify(foundText(found, planSetup(found, typed), shell.talk));
  const ready = readyAgents(found.agents);
  const proposed = planSetup(found, typed);
  const agent =
    typed.agent === undefined && ready.length > 1
      ? await shell.ask(`Which agent (${ready.join(", ")}, or provider:model)?`, proposed.agent ?? "")
      : typed.agent;
  const setup =
    typed.setup === undefined && proposed.setup !== null
      ? await shell.ask("Command that makes a fresh worktree usable, or none?", proposed.setup)
      : typed.setup;
  const gate = typed.gate ?? (await shell.ask("Command that must succeed, or none?", proposed.gate ?? "none"));
  return { ...typed, agent: await checkAgent(modelOf("agent", agent), root), setup, gate };
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
  shell.notify(`\n${escapeText(file.path)}:\n\n${file.text}`);
  // Nothing is lost by it: an existing file keeps its other settings and its comments. So Enter accepts.
  return (await shell.confirm("Write it?", { enter: "yes" })) === "yes";
}

function textOf(path: string): string {
  try {
    const file = readRegularFile({ path, maxBytes: 1_000_000 });
    return file.kind === "read" ? file.bytes.toString("utf8") : "";
  } catch {
    return "";
  }
}

function write(path: string, text: string, mode: "create" | "replace"): void {
  try {
    writeDurable({ path, data: Buffer.from(text), mode });
    // The user commits this file and others read it, so it gets the usual permissions, unlike other files written this
    // way.
    chmodSync(path, 0o666 & ~process.umask());
  } catch (cause) {
    const hint = "Check the directory's permissions and free space.";
    throw new HoldfastError({ code: "IO_FAILED", message: `Cannot write ${path}`, hint, cause });
  }
}

/** What was detected on this machine and in the repository. */
export interface Found {
  readonly agents: readonly ObservedAgent[];
  readonly forge: ObservedForge | null;
  readonly setup: GuessedCommand | null;
  readonly gate: GuessedCommand | null;
  /** The settings in force; what the file already sets is kept. */
  readonly now: Pick<WorkSettings, "agent" | "models" | "impl" | "forge"> & {
    /** null: not configured. */
    readonly setup: readonly string[] | null;
  };
}

/** Values from flags or answers; undefined: not chosen. */
interface Chosen {
  readonly agent?: string | undefined;
  readonly implModel?: string | undefined;
  readonly reviewModel?: string | undefined;
  readonly forge?: WorkSettings["forge"]["kind"] | undefined;
  /** "none": no set-up. */
  readonly setup?: string | undefined;
  /** "none": no gate. */
  readonly gate?: string | undefined;
}

interface SetupPlan {
  readonly agent: string | null;
  readonly setup: string | null;
  readonly gate: string | null;
  readonly forge: string;
  /** Only edits that change something. */
  readonly edits: readonly ConfigEdit[];
}

/** A chosen value takes precedence over the file's, and that over a detected one. */
export function planSetup(found: Found, chosen: Chosen): SetupPlan {
  const { now } = found;
  const agent = chosen.agent ?? now.agent ?? readyAgents(found.agents)[0] ?? null;
  const gate = chosen.gate ?? now.impl.gate ?? found.gate?.command ?? null;
  const isSetUp = now.setup?.join(" && ") ?? null;
  const setup = chosen.setup ?? isSetUp ?? found.setup?.command ?? null;
  const wanted: readonly (readonly [string, string | null | undefined, string | null])[] = [
    ["agent", agent, now.agent],
    ["models.impl", chosen.implModel, now.models.impl],
    ["models.review", chosen.reviewModel, now.models.review],
    ["forge.kind", chosen.forge, now.forge.kind],
    ["workspace.setup", setup === "none" ? null : setup, isSetUp],
    ["impl.gate", gate === "none" ? null : gate, now.impl.gate],
  ];
  const edits = wanted.flatMap(([key, value, before]) =>
    value === null || value === undefined || value === before ? [] : [{ key: key.split("."), value }],
  );
  return {
    agent,
    setup: (setup === "none" ? isSetUp : setup) || null,
    gate: gate === "none" ? now.impl.gate : gate,
    forge: chosen.forge ?? now.forge.kind,
    edits,
  };
}

/** In the order in which they are offered. */
function readyAgents(agents: readonly ObservedAgent[]): readonly string[] {
  return agents.filter(({ probe }) => probe.installed && probe.problem === null).map(({ name }) => name);
}

/** Guesses the project's test command from its files; null: no file names one. `read` returns "" for a missing file. */
export function guessGate(read: (name: string) => string): GuessedCommand | null {
  return ofPackage(read) ?? ofMakefile(read) ?? ofPython(read) ?? ofOthers(read);
}

function ofPackage(read: (name: string) => string): GuessedCommand | null {
  const script = asText(asRecord(readPackage(read)["scripts"])["test"]);
  // The placeholder of `npm init`, which always fails.
  if (script === "" || script.includes("no test specified")) return null;
  return { command: `${findLock(read)?.run ?? "npm"} test`, why: "package.json has a test script" };
}

function ofMakefile(read: (name: string) => string): GuessedCommand | null {
  const targets = ["test", "check"].filter((name) => new RegExp(`^${name}\\s*:(?!=)`, "m").test(read("Makefile")));
  const [target] = targets;
  return target === undefined ? null : { command: `make ${target}`, why: `the Makefile has a target ${target}` };
}

function ofPython(read: (name: string) => string): GuessedCommand | null {
  const isTested = /\bpytest\b/.test(read("pyproject.toml")) || read("pytest.ini") !== "";
  if (!isTested) return read("tox.ini") === "" ? null : { command: "tox", why: "there is a tox.ini" };
  const python = read("requirements.txt") === "" ? "python3" : VENV_PYTHON;
  const command = read("uv.lock") === "" ? `${python} -m pytest -q` : "uv run pytest -q";
  return { command, why: "pytest is set up here" };
}

function ofOthers(read: (name: string) => string): GuessedCommand | null {
  if (read("Cargo.toml") !== "") return { command: "cargo test", why: "there is a Cargo.toml" };
  return read("go.mod") === "" ? null : { command: "go test ./...", why: "there is a go.mod" };
}

/** The detected values and the proposed settings, one line each. */
function foundText(found: Found, plan: SetupPlan, page: Page): string {
  const lines: readonly (readonly [string, string])[] = [
    ["agent", agentLine(found, plan)],
    ["forge", forgeLine(found, plan)],
    ["set-up", setupLine(found, plan)],
    ["gate", gateLine(found, plan)],
  ];
  const room = Number.isFinite(page.width) ? page.width - LEFT : 1000;
  const text = lines.flatMap(([name, words]) => {
    const [first = "", ...more] = wrap(escapeText(words), room);
    return [name.padEnd(LEFT) + first, ...more.map((line) => " ".repeat(LEFT) + line)];
  });
  return `${text.join("\n")}\n`;
}

const LEFT = 8;

function agentLine({ agents }: Found, { agent }: SetupPlan): string {
  if (agent === null) return "none is ready; `holdfast agents` shows what each needs";
  const seen = agents.find(({ name }) => name === splitAgent(agent).provider);
  const state = seen === undefined ? "" : ` (${seen.probe.version ?? "no version"}, ${seen.probe.problem ?? "ready"})`;
  const others = readyAgents(agents).filter((name) => name !== seen?.name);
  return `${agent}${state}${others.length === 0 ? "" : `; also ready: ${others.join(", ")}`}`;
}

function forgeLine({ forge }: Found, plan: SetupPlan): string {
  if (plan.forge === "none") return "none, as you chose: no issues and no pull requests";
  if (forge === null) return "none detected: no issues and no pull requests";
  if (forge.fix !== null) return `${forge.name}, ${forge.location}: no login. ${forge.fix}`;
  return `${forge.name}, ${forge.location}${forge.login === null ? "" : `, through ${forge.login}`}`;
}

function setupLine({ setup, now }: Found, plan: SetupPlan): string {
  if (plan.setup === null) return "none detected; --setup sets the command";
  if (plan.setup === now.setup?.join(" && ")) return `${plan.setup} (from the config)`;
  return plan.setup === setup?.command ? `${plan.setup} (${setup.why})` : plan.setup;
}

function gateLine({ gate, now }: Found, plan: SetupPlan): string {
  if (plan.gate === null) return "none detected; --gate sets the command";
  if (plan.gate === now.impl.gate) return `${plan.gate} (from the config)`;
  return plan.gate === gate?.command ? `${plan.gate} (${gate.why})` : plan.gate;
}
