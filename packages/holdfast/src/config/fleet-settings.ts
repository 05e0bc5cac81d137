/** The `fleet` settings: where the queue of submitted runs is, which queue a run joins, and how many runs work at once. */
import type { DispatchLimits } from "@holdfast/core/dispatch";
import { isRecord } from "@holdfast/core/json";

export interface FleetSettings {
  /** A directory or a postgres:// URL; null: beside the store. */
  readonly dispatch: string | null;
  /** The queue of the runs of an agent, if it is not named like the agent. */
  readonly queueOf: Readonly<Record<string, string>>;
  readonly limits: DispatchLimits;
}

/** What the file sets. null: "none". */
interface FileFleet {
  readonly perQueue?: number | null | undefined;
  readonly perRepository?: number | null | undefined;
  readonly queues?: Readonly<Record<string, number>> | undefined;
  readonly repositories?: Readonly<Record<string, number>> | undefined;
  readonly agents?: Readonly<Record<string, number>> | undefined;
  readonly queueOf?: Readonly<Record<string, string>> | undefined;
}

export function mergeFleet(fleet: FileFleet = {}, dispatch: string | null): FleetSettings {
  const { perQueue = null, perRepository = null, queues = {}, repositories = {}, agents = {}, queueOf = {} } = fleet;
  return {
    dispatch,
    queueOf,
    limits: {
      ...(perQueue === null ? {} : { perQueue }),
      ...(perRepository === null ? {} : { perRepository }),
      queues,
      repositories,
      labels: Object.fromEntries(Object.entries(agents).map(([agent, limit]) => [agentLabel(agent), limit])),
    },
  };
}

/** The rows of `holdfast config`, without the location. */
export function fleetEntries({ queueOf, limits }: FleetSettings): readonly (readonly [string, string | number])[] {
  return [
    ["fleet.perQueue", limits.perQueue ?? "none"],
    ["fleet.perRepository", limits.perRepository ?? "none"],
    ["fleet.queues", tableText(limits.queues ?? {})],
    ["fleet.repositories", tableText(limits.repositories ?? {})],
    ["fleet.agents", tableText(agentsIn(limits))],
    ["fleet.queueOf", tableText(queueOf)],
  ];
}

/** A worker that has this label can start the agent; a run that calls it needs the label. */
export function agentLabel(agent: string): string {
  return `agent:${agent}`;
}

function agentsIn({ labels = {} }: DispatchLimits): Readonly<Record<string, number>> {
  return Object.fromEntries(
    Object.entries(labels).map(([label, limit]) => [label.slice(agentLabel("").length), limit]),
  );
}

function tableText(table: Readonly<Record<string, string | number>>): string {
  return (
    Object.entries(table)
      .map(([name, value]) => `${name}: ${value}`)
      .join(", ") || "(none)"
  );
}

/** Names of queues and repositories are shown in lists and stored as they are. */
const NAME = /^[A-Za-z0-9][\w./-]{0,199}$/;

const QUEUE_NAME = { type: "string", pattern: NAME.source } as const;
export const COUNTS = {
  type: "object",
  propertyNames: { pattern: NAME.source },
  additionalProperties: { type: "integer", minimum: 0 },
} as const;
export const NAMES = {
  type: "object",
  propertyNames: { pattern: NAME.source },
  additionalProperties: QUEUE_NAME,
} as const;

export function isQueueName(name: unknown): name is string {
  return typeof name === "string" && NAME.test(name);
}

export function counts(value: unknown): Readonly<Record<string, number>> | undefined {
  return table(value, (one): one is number => typeof one === "number" && Number.isSafeInteger(one) && one >= 0);
}

export function names(value: unknown): Readonly<Record<string, string>> | undefined {
  return table(value, isQueueName);
}

function table<T>(value: unknown, isValue: (one: unknown) => one is T): Readonly<Record<string, T>> | undefined {
  if (!isRecord(value)) return undefined;
  const entries = Object.entries(value).flatMap(([name, one]) =>
    isQueueName(name) && isValue(one) ? [[name, one] as const] : [],
  );
  return entries.length === Object.keys(value).length ? Object.fromEntries(entries) : undefined;
}
