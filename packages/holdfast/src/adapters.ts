/**
 * Builds the adapters that runs work with (agents, commands, forge, store), hides secrets in them, and checks agents
 * before a run starts.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { AGENT_VERSIONS, judgeVersion } from "@holdfast/agents/agent-versions";
import type { Adapters, CoreAdapters } from "@holdfast/core/adapters";
import { mainWorktreeRoot } from "@holdfast/core/workspace";
import { type Agent, type AgentArgs, splitAgent } from "@holdfast/core/agent";
import { ASSUMED_TOKENS, type PriceTable, priceOf } from "@holdfast/core/budget";
import type { Budget } from "@holdfast/core/position";
import type { CheckpointSwitches, ExecutionConfig, Planes } from "@holdfast/core/checkpoint";
import { createCommands } from "@holdfast/core/commands";
import type { ErrorPolicy } from "@holdfast/core/error-policy";
import type { Forge } from "@holdfast/core/forge";
import type { NewEntry } from "@holdfast/core/journal";
import { type JsonObject, sha256 } from "@holdfast/core/json";
import { ownSecrets } from "@holdfast/core/known-secrets";
import { type Masking, createLineMask, maskSecrets, maskValue } from "@holdfast/core/mask";
import { eachForgeQuestion, recordingParts } from "@holdfast/core/record-run";
import { type Environment, CallRecorder, describeEnvironment } from "@holdfast/core/recorded-calls";
import { type CommitBody, type LeasedBirth, type Store, newestUsable } from "@holdfast/core/store";
import type { Branch } from "@holdfast/core/branch";
import { createGitBranches } from "@holdfast/git/branches";
import { MAX_TIMER_MS } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import { createOutputs } from "@holdfast/platform/outputs";
import { loadPlugin } from "@holdfast/workflows/built-in";
import type { AgentRole } from "@holdfast/workflows/plugin";
import { createSyntaxGate } from "@holdfast/workflows/syntax-gate";

/** Builds all adapters of this machine that workflows use. */
export async function buildAdapters(
  params: AdapterOptions & { readonly adapters: CoreAdapters; readonly forge: Forge | null },
): Promise<Adapters> {
  const { adapters } = params;
  // Loaded on demand: commands that only read the store need no agents.
  const { createAgentRegistry } = await import("@holdfast/agents/registry");
  const { DEFAULT_PRICES } = await import("@holdfast/agents/prices");
  const { measureAdapters } = await import("./telemetry.ts");
  const registry = createAgentRegistry({
    clock: adapters.clock,
    directory: params.directory,
    args: params.agentArgs,
    env: params.agentEnv,
  });
  const versions = new Map<string, string>();
  return measureAdapters({
    ...adapters,
    agent: (provider) => rememberVersion(registry.agent(provider), versions),
    agentIdleMs: params.agentIdleMs,
    checkpointEveryMs: params.checkpointEveryMs,
    checkpoints: params.checkpoints,
    approve: params.approve,
    errorPolicy: params.errorPolicy,
    prices: { ...DEFAULT_PRICES, ...params.prices },
    ...(params.assumedTokens === undefined ? {} : { assumedTokens: params.assumedTokens }),
    mainCheckout: params.mainCheckout,
    agentVersions: () => Object.fromEntries(versions),
    ...(params.setup.length + params.copy.length === 0
      ? {}
      : { worktreeSetup: { commands: params.setup, copy: params.copy } }),
    forge: params.forge,
    branches: createGitBranches(),
    commands: createCommands({ env: params.agentEnv }),
    syntax: createSyntaxGate(),
    outputs: createOutputs,
    projectRoot: () => mainWorktreeRoot(adapters.workspaces, params.directory),
    wait: async (milliseconds, signal) => {
      for (let left = milliseconds; left > 0; left -= MAX_TIMER_MS) {
        await sleep(Math.min(left, MAX_TIMER_MS), undefined, { signal }).catch((error: unknown) => {
          signal.throwIfAborted();
          throw error;
        });
      }
    },
  });
}

/** Keeps the version that a probe finds, for the checkpoints of this process's runs. */
function rememberVersion(agent: Agent, versions: Map<string, string>): Agent {
  return {
    ...agent,
    probe: async () => {
      const probe = await agent.probe();
      if (probe.version !== null) versions.set(agent.name, probe.version);
      return probe;
    },
  };
}

/** Settings that the caller of `openHoldfast` chooses for the work of its runs. */
export interface AdapterOptions {
  /** Base of relative paths to scripts and commands. */
  readonly directory: string;
  readonly agentIdleMs: number | null;
  readonly checkpointEveryMs: number | null;
  readonly checkpoints: CheckpointSwitches;
  /** Kinds of effects that wait for the user's approval. */
  readonly approve: readonly string[];
  readonly errorPolicy: ErrorPolicy;
  readonly prices: PriceTable;
  readonly assumedTokens?: number | undefined;
  readonly mainCheckout: "ask" | "report";
  /** Shell commands that make a fresh worktree usable. */
  readonly setup: readonly string[];
  /** Files and patterns that are copied from the main checkout. */
  readonly copy: readonly string[];
  readonly agentArgs: AgentArgs;
  /** Environment variables that agents and commands get in addition to the default ones. */
  readonly agentEnv: readonly string[];
}

/**
 * Wraps the adapters so that secrets are hidden in incoming text (issues, command output, diffs) and in outgoing text
 * (journal, logs, prompts, commit messages, forge requests). Masking is idempotent, so masked input can be stored,
 * compared and hashed as it is. Files in checkpoints are bytes and are not masked.
 */
export function maskAdapters(adapters: Adapters, masking: Masking): Adapters {
  const mask = (text: string): string => masking.mask(text);
  const clean = new WeakSet<object>();
  const hide = <T>(value: T): T => maskValue(value, mask, clean);
  return {
    ...adapters,
    masking,
    store: maskedStore(adapters.store, hide),
    forge: adapters.forge === null ? null : maskedForge(adapters.forge, hide),
    agent: (provider) => maskedAgent(adapters.agent(provider), hide),
    branches: {
      of: async (worktree) => maskedBranch(await adapters.branches.of(worktree), mask),
      asking: (folder) => adapters.branches.asking(folder),
    },
    commands: {
      run: async (params) => hide(await adapters.commands.run(params)),
      endMarked: (mark) => adapters.commands.endMarked(mark),
      findUnmarked: (params) => adapters.commands.findUnmarked(params),
    },
    logs: {
      ...adapters.logs,
      open(call) {
        const log = adapters.logs.open(call);
        // A private key comes line by line.
        const maskLine = createLineMask(mask);
        return { ...log, append: (line) => log.append(maskLine(line)) };
      },
    },
  };
}

type Hide = <T>(value: T) => T;

function maskedForge(forge: Forge, hide: Hide): Forge {
  return eachForgeQuestion(
    forge,
    (mark) => maskedForge(forge.marked(mark), hide),
    (_method, ask) =>
      async (...args) =>
        hide(await ask(...hide(args))),
  );
}

function maskedAgent(agent: Agent, hide: Hide): Agent {
  return {
    ...agent,
    run: async (task) =>
      hide(
        await agent.run({
          ...task,
          prompt: hide(task.prompt),
          onEvent: (event) => task.onEvent(event.kind === "raw" ? event : hide(event)),
        }),
      ),
  };
}

function maskedBranch(branch: Branch, mask: (text: string) => string): Branch {
  return {
    ...branch,
    commit: (params) => branch.commit({ ...params, message: mask(params.message) }),
    commitResolved: (params) => branch.commitResolved({ ...params, message: mask(params.message) }),
    diffSince: async (params) => {
      const { text, cut } = await branch.diffSince(params);
      return { text: mask(text), cut };
    },
  };
}

function maskedStore(store: Store, hide: Hide): Store {
  const entryOf = (entry: NewEntry): NewEntry => {
    const body = hide(entry.body);
    return body === entry.body ? entry : { ...entry, body };
  };
  const commitOf = <C extends CommitBody>(commit: C): C => {
    const { entries, checkpoint } = commit;
    return {
      ...commit,
      ...(entries === undefined ? {} : { entries: entries.map(entryOf) }),
      ...(checkpoint === undefined ? {} : { checkpoint: { ...checkpoint, planes: planesOf(checkpoint.planes) } }),
    };
  };
  // The conversation plane holds a digest, and its text is masked already. Files belong to git. The config must stay
  // exact because a resume starts agents with it.
  const planesOf = (planes: Planes): Planes => ({
    ...planes,
    position: hide(planes.position),
    context: hide(planes.context),
    inputs: hide(planes.inputs),
  });
  const birthOf = ({ first, ...birth }: LeasedBirth): LeasedBirth => ({
    ...hide(birth),
    ...(first === undefined ? {} : { first: commitOf(first) }),
  });
  return {
    id: store.id,
    location: store.location,
    createRun: (run) =>
      store.createRun({
        ...run,
        work: hide(run.work),
        ...(run.labels === undefined ? {} : { labels: hide(run.labels) }),
      }),
    getRun: (id) => store.getRun(id),
    listRuns: (query) => store.listRuns(query),
    takeLease: ({ birth, ...params }) =>
      store.takeLease({ ...params, ...(birth === undefined ? {} : { birth: birthOf(birth) }) }),
    renewLease: (lease) => store.renewLease(lease),
    releaseLease: (lease) => store.releaseLease(lease),
    getLease: (run) => store.getLease(run),
    listLeases: () => store.listLeases(),
    now: () => store.now(),
    commit: (commit) => store.commit(commitOf(commit)),
    getCheckpoint: (ref) => store.getCheckpoint(ref),
    latest: (run) => store.latest(run),
    listCheckpoints: (query) => store.listCheckpoints(query),
    readJournal: (query) => store.readJournal(query),
    watch: (query) => store.watch(query),
    listEffects: (run) => store.listEffects(run),
    putSignal: (signal) => store.putSignal(hide(signal)),
    listSignals: (run) => store.listSignals(run),
    moveSignal: (params) => store.moveSignal(params),
    tag: (params) => store.tag(params),
    untag: (params) => store.untag(params),
    drop: (params) => store.drop(params),
    listTombstones: (run) => store.listTombstones(run),
    sweep: (params) => store.sweep(params),
    verify: (params) => store.verify(params),
    quarantine: (params) => store.quarantine(params),
    // A run of another store was masked when it was written; its hashes cover the masked text.
    exportRun: (run) => store.exportRun(run),
    importRun: ({ first, ...params }) => store.importRun({ ...params, first: first === null ? null : commitOf(first) }),
    stats: () => store.stats(),
    ...(store.makeRoom === undefined ? {} : { makeRoom: () => store.makeRoom?.() ?? Promise.resolve(0) }),
    ...(store.changes === undefined ? {} : { changes: () => store.changes?.() ?? "" }),
    ...(store.withheld === undefined ? {} : { withheld: () => store.withheld?.() ?? [] }),
    getMeta: (key) => store.getMeta(key),
    setMeta: (key, value) => store.setMeta(key, value),
    close: () => store.close(),
  };
}

/** Adapters for one run, with a recorder if the run's mode asks for one. */
export function recordAdapters(adapters: Adapters, mode: ExecutionConfig["mode"]): Adapters {
  if (mode === "default") return adapters;
  return recordingParts(adapters, new CallRecorder({ environment: currentEnvironment, mask: maskOwnSecrets }));
}

/** Adapters for an existing run, with a recorder if that run is recorded. */
export async function adaptersOfRun(adapters: Adapters, run: string): Promise<Adapters> {
  if ((await adapters.store.getRun(run)) === undefined) return adapters;
  const saved = (await newestUsable(adapters.store, run)).checkpoint?.planes.config;
  return recordAdapters(adapters, saved?.mode ?? "default");
}

/** The environment as agents and commands get it, with secrets masked. */
export function currentEnvironment(): Environment {
  return describeEnvironment(process.env, sha256);
}

export function maskOwnSecrets(text: string): string {
  return maskSecrets(text, ownSecrets());
}

/** Fails before anything is created: a run that cannot call its agent would stop at its first stage. */
export function checkAgents(adapters: Adapters, agents: readonly string[]): void {
  for (const provider of providersOf(adapters, agents)) adapters.agent(provider);
}

/**
 * Throws NEEDS_DECISION, before any call is paid for, if an agent's program is too old. Returns a warning for each
 * installed program whose version cannot be read: it may work, or fail in the middle of a run.
 */
export async function checkVersions(adapters: Adapters, agents: readonly string[]): Promise<readonly string[]> {
  const programs = providersOf(adapters, agents).filter((name) => Object.hasOwn(AGENT_VERSIONS, name));
  const warnings: string[] = [];
  for (const name of new Set(programs)) {
    const { installed, version, problem, hint } = await adapters.agent(name).probe();
    const verdict = judgeVersion(name, version);
    if (verdict === "unknown" && installed) warnings.push(unknownVersion(name, version));
    if (verdict !== "too_old") continue;
    throw new HoldfastError({
      code: "NEEDS_DECISION",
      message: `The agent ${name} cannot be used: ${problem ?? "it is too old"}`,
      hint: hint ?? "Upgrade it.",
      retry: "ask",
      data: { agent: name, version },
    });
  }
  return warnings;
}

/**
 * Throws NEEDS_DECISION, before anything is created or paid for, if the run has a limit on money and the price of one of
 * its agents is unknown: such a limit could not be kept.
 */
export function checkPrices(adapters: Adapters, agents: readonly string[], limit: Partial<Budget["limit"]>): void {
  const [unknown] = typeof limit.microUsd === "number" ? unpricedAgents(adapters, agents) : [];
  if (unknown === undefined) return;
  const { model } = splitAgent(unknown);
  throw new HoldfastError({
    code: "NEEDS_DECISION",
    message: `The limit on money cannot be kept: the price of ${unknown}${model === null ? " with its default model" : ""} is unknown`,
    hint: `${priceHint(unknown)} Or limit tokens instead (--max-tokens N --max-cost none).`,
    retry: "ask",
    data: { agent: unknown },
  });
}

/**
 * Throws NEEDS_DECISION, before anything is created or paid for, if the run has a limit on tokens that is smaller than
 * what one call of its agents counts as: these agents never report tokens, so no call would fit.
 */
export function checkTokens(adapters: Adapters, roles: readonly AgentRole[], limit: Partial<Budget["limit"]>): void {
  const { assumedTokens = ASSUMED_TOKENS } = adapters;
  if (typeof limit.tokens !== "number" || limit.tokens >= assumedTokens) return;
  const uncounted = roles
    .map(({ agent }) => agent)
    .find((name) => adapters.agent(splitAgent(name).provider).capabilities.reportsTokens === false);
  if (uncounted === undefined) return;
  throw new HoldfastError({
    code: "NEEDS_DECISION",
    message: `The limit of ${limit.tokens} tokens cannot be kept: ${uncounted} does not report its tokens, and each call counts as ${assumedTokens}`,
    hint: `Allow at least one call (--max-tokens ${assumedTokens}), limit time instead (--max-tokens none --max-total-time 1h), or set \`budget.assumedTokens\` in the config to what a call needs.`,
    retry: "ask",
    data: { agent: uncounted, assumedTokens },
  });
}

/** Agents without a known price: they report no cost, and no list has one. Fallback agents included. */
export function unpricedAgents(
  adapters: Pick<Adapters, "agent" | "errorPolicy" | "prices">,
  agents: readonly string[],
): readonly string[] {
  return [...new Set([...agents, ...adapters.errorPolicy.fallback.agents])].filter((name) => {
    const { provider, model } = splitAgent(name);
    return !adapters.agent(provider).capabilities.cost && priceOf(adapters.prices, provider, model) === null;
  });
}

/** How to set the price of an agent. */
export function priceHint(agent: string): string {
  return `Set its price in US dollars per million tokens in the config: prices: {${JSON.stringify(agent)}: {input: 2, cached: 0.2, output: 10}}.`;
}

function unknownVersion(name: string, version: string | null): string {
  const minimum = AGENT_VERSIONS[name]?.minimum ?? "";
  const reported = version === null ? "reports no version" : `reports the version ${JSON.stringify(version)}`;
  return `Warning: ${name} ${reported}, and Holdfast needs ${minimum} or newer. Run \`${name} --version\` to check it.`;
}

/** The agents that a run of this workflow may call: its own and those that the options name. */
export async function agentsOf(
  workflow: string,
  { agent, options }: { readonly agent: string | null; readonly options: JsonObject },
): Promise<readonly string[]> {
  const roles = (await loadPlugin(workflow))?.roles(options, agent) ?? [];
  return [...(agent === null ? [] : [agent]), ...roles.map((role) => role.agent)];
}

/** Whether a role of a built-in workflow has no agent. */
export async function lacksAgent(
  workflow: string,
  { agent, options }: { readonly agent: string | null; readonly options: JsonObject },
): Promise<boolean> {
  const plugin = await loadPlugin(workflow);
  if (plugin === null || agent !== null) return false;
  return plugin.roles(options, null).length < plugin.roles(options, "any").length;
}

function providersOf(adapters: Adapters, agents: readonly string[]): readonly string[] {
  return [...agents, ...adapters.errorPolicy.fallback.agents].map((one) => splitAgent(one).provider);
}
