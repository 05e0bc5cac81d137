/** Finds and opens the queue of submitted runs, and names what a run needs of a worker. */
import { existsSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, join, posix } from "node:path";
import { findAnyWorktree } from "@holdfast/core/adapters";
import { AGENT_PROGRAMS, splitAgent } from "@holdfast/core/agent";
import type { ExecutionConfig } from "@holdfast/core/checkpoint";
import type { Dispatch } from "@holdfast/core/dispatch";
import { asRecord } from "@holdfast/core/json";
import { learnSecrets, secretValues } from "@holdfast/core/known-secrets";
import { usageError } from "@holdfast/platform/error";
import { isStoreUrl } from "@holdfast/postgres/store-url";
import { BUILT_IN_NAMES, loadPlugin, rolesOf } from "@holdfast/workflows/built-in";
import { observeAgents } from "../check-agents.ts";
import type { DatabaseWait } from "../open-store.ts";
import type { Settings } from "../config/effective-config.ts";
import { type FleetSettings, agentLabel } from "../config/fleet-settings.ts";
import type { Holdfast } from "../holdfast.ts";
import { unnamedAgentOf } from "../observe-start.ts";
import { hostLabel, storeLabel } from "./plan-fleet.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** A directory or a URL: what the settings name, else beside the store. */
export function dispatchPlace({ fleet, store }: Pick<Settings, "fleet" | "store">, location: string): string {
  if (fleet.dispatch !== null) return fleet.dispatch;
  // The location that a store reports has no password.
  if (isStoreUrl(location)) return store ?? location;
  return join(location, "dispatch");
}

/** Whether there is no queue at a place on this machine. */
export function isDispatchAbsent(place: string): boolean {
  return !isStoreUrl(place) && !existsSync(place);
}

/** DBOS is loaded only by a worker, and the PostgreSQL driver only for a URL. */
export async function openDispatch(
  place: string,
  params: {
    readonly limits: FleetSettings["limits"];
    readonly env: Env;
    readonly onProblem?: (error: unknown) => void;
    readonly onWait?: (wait: DatabaseWait) => void;
  },
): Promise<Dispatch> {
  const { limits, env, onProblem, onWait } = params;
  const { reconcileMs: _, ...timings } = dispatchTimings(env);
  const common = { limits, timings, ...(onProblem === undefined ? {} : { onProblem }) };
  if (!isStoreUrl(place)) {
    const { openLocalDispatch } = await import("@holdfast/dispatch/local");
    return await openLocalDispatch({ directory: place, ...common });
  }
  learnSecrets(secretValues({ HOLDFAST_STORE: place }));
  const { openDbosDispatch } = await import("@holdfast/dispatch/dbos");
  return await openDbosDispatch({ url: place, onWait, ...common });
}

/** For lists, which make nothing and need no right to write. null: nothing was ever submitted there. */
export async function findDispatch(
  place: string,
  params: Parameters<typeof openDispatch>[1],
): Promise<Dispatch | null> {
  if (isDispatchAbsent(place)) return null;
  if (!isStoreUrl(place)) return await openDispatch(place, params);
  learnSecrets(secretValues({ HOLDFAST_STORE: place }));
  const { findDbosDispatch } = await import("@holdfast/dispatch/dbos");
  return await findDbosDispatch({ url: place, limits: params.limits, onWait: params.onWait });
}

/** How often a worker compares the queue with its stores. */
const RECONCILE_MS = 15_000;
const TIMING_NAMES = ["lookMs", "heartbeatMs", "deadMs", "tidyMs", "reconcileMs"] as const;

/** The times of dispatch and worker. Tests shorten them with HOLDFAST_DISPATCH_TIMINGS, a JSON object. */
export function dispatchTimings(
  env: Env,
): Partial<Record<(typeof TIMING_NAMES)[number], number>> & { readonly reconcileMs: number } {
  const text = env["HOLDFAST_DISPATCH_TIMINGS"] ?? "";
  if (text === "") return { reconcileMs: RECONCILE_MS };
  const given = asRecord(JSON.parse(text));
  const known = TIMING_NAMES.flatMap((name) => {
    const value = given[name];
    return typeof value === "number" && value > 0 ? [[name, value] as const] : [];
  });
  return { reconcileMs: RECONCILE_MS, ...Object.fromEntries(known) };
}

/** The labels of this machine: the agents that are ready, the workflows that this Holdfast knows, its stores, and those of the user. */
export async function ownLabels(stores: readonly string[], more: readonly string[]): Promise<readonly string[]> {
  const own = more.map(checkOwnLabel);
  const { ready } = unnamedAgentOf(await observeAgents());
  const workflows = await Promise.all(BUILT_IN_NAMES.map(workflowLabel));
  return [
    ...new Set([
      ...ready.map(agentLabel),
      ...workflows.flat(),
      ...stores.map(storeLabel),
      hostLabel(hostname()),
      ...own,
    ]),
  ].toSorted();
}

/** What a worker must have to execute a run, beside its files. A workflow in a file is in the repository, so it needs no label. */
export async function neededLabels(params: {
  readonly workflow: string;
  readonly config: Pick<ExecutionConfig, "agent" | "model" | "inputs">;
  readonly more: readonly string[];
}): Promise<readonly string[]> {
  const { workflow, more } = params;
  const agents = (await agentsOf(params)).filter((agent) => AGENT_PROGRAMS.some((name) => name === agent));
  return [
    ...new Set([...agents.map(agentLabel), ...(await workflowLabel(workflow)), ...more.map(checkLabel)]),
  ].toSorted();
}

/** The queue of a run: by default that of its first agent. */
export async function defaultQueue(
  params: Parameters<typeof agentsOf>[0],
  { queueOf }: Pick<FleetSettings, "queueOf">,
): Promise<string> {
  const [agent = "default"] = await agentsOf(params);
  return (Object.hasOwn(queueOf, agent) ? queueOf[agent] : undefined) ?? agent;
}

/** The providers of all roles, the first role first. */
async function agentsOf(params: {
  readonly workflow: string;
  readonly config: Pick<ExecutionConfig, "agent" | "model" | "inputs">;
}): Promise<readonly string[]> {
  const { workflow, config } = params;
  const { agent, model, inputs } = config;
  const own = agent === null || model === null ? agent : `${agent}:${model}`;
  const roles = await rolesOf(workflow, { agent: own, options: inputs });
  return [...new Set(roles.map((role) => splitAgent(role.agent).provider))];
}

async function workflowLabel(name: string): Promise<readonly string[]> {
  const plugin = await loadPlugin(name);
  return plugin === null ? [] : [`workflow:${name}@${plugin.version}`];
}

function checkLabel(label: string): string {
  if (/^[\w@:./+-]{1,200}$/.test(label)) return label;
  throw usageError(
    `${JSON.stringify(label).slice(0, 80)} cannot be a label`,
    "Use letters, digits and _ @ : . / + -, such as gpu or pool:large.",
  );
}

/** USAGE also for a label that says what a worker has: one that lacks it would be given runs that it cannot execute. */
export function checkOwnLabel(label: string): string {
  const prefix = ["agent:", "host:", "store:", "workflow:"].find((one) => label.startsWith(one));
  if (prefix === undefined) return checkLabel(label);
  throw usageError(
    `--label cannot be ${JSON.stringify(label).slice(0, 80)}: a worker determines its ${prefix} labels itself`,
    "Choose another name, such as gpu or pool:large.",
  );
}

/** The name of a repository in lists and limits: the end of its remote's address, such as `acme/shop`, else of its directory. */
export async function repositoryName({ workspaces }: Pick<Holdfast, "workspaces">): Promise<string> {
  if (workspaces === null) return "store";
  const { createGitBranches } = await import("@holdfast/git/branches");
  const folder = await findAnyWorktree(workspaces);
  const remote = folder === null ? null : await (await createGitBranches().asking(folder)).remote();
  return nameInAddress(remote?.url ?? dirname(workspaces.commonDir));
}

/** Pure. Owner and name: two repositories may have the same name. `git clone ../shop.git` writes the path with its "..". What a user may have put before the path, such as a password, is not part of it. */
export function nameInAddress(address: string): string {
  const path = URL.canParse(address) ? new URL(address).pathname : address.replace(/^[^/:]*:/, "");
  const parts = posix
    .normalize(path)
    .split("/")
    .filter((part) => !["", ".", ".."].includes(part));
  const name = parts.slice(-2).join("/");
  return (
    name
      .replace(/\.git$/, "")
      .replaceAll(/[^\w./-]+/g, "-")
      .replace(/^[^A-Za-z0-9]+/, "") || "repository"
  );
}
