/* Decides which due entry goes to which worker, and which workers are dead. Pure. */
import type { DispatchLimits } from "@holdfast/core/dispatch";

export interface DueEntry {
  readonly run: string;
  readonly queue: string;
  readonly repository: string;
  readonly needs: readonly string[];
}

export interface ActiveEntry extends DueEntry {
  readonly worker: string;
}

export interface WorkerFacts {
  readonly id: string;
  readonly labels: readonly string[];
  readonly slots: number;
  readonly draining: boolean;
  readonly heartbeatAgeMs: number;
}

export interface DispatchFacts {
  readonly workers: readonly WorkerFacts[];
  readonly active: readonly ActiveEntry[];
  readonly limits: DispatchLimits;
  /** A worker whose heartbeat is older is dead. */
  readonly deadMs: number;
  /** Whether the process that decides has kept its own heartbeat. */
  readonly punctual: boolean;
}

/** The workers whose entries go to others. */
export function deadWorkers({ workers, active, deadMs, punctual }: DispatchFacts): readonly string[] {
  const known = new Set(workers.map(({ id }) => id));
  const unknown = new Set(active.map(({ worker }) => worker).filter((id) => !known.has(id)));
  // After a pause of this process or of the database every heartbeat looks old. The others get the time to renew theirs.
  // A clock that was set back makes the last heartbeat of a dead worker lie in the future.
  const silent = workers.filter(({ heartbeatAgeMs }) => punctual && Math.abs(heartbeatAgeMs) > deadMs);
  return [...unknown, ...silent.map(({ id }) => id)];
}

export interface Room {
  /** Queues, repositories and labels whose limit is reached. */
  readonly fullQueues: readonly string[];
  readonly fullRepositories: readonly string[];
  readonly fullLabels: ReadonlySet<string>;
  /** The labels of each worker with a free slot. */
  readonly offers: readonly (readonly string[])[];
}

/** What need not be looked for among the due entries. */
export function roomFor(facts: DispatchFacts): Room {
  const { active, limits } = facts;
  const full = (kind: Kind): readonly string[] => {
    const counts = countBy(active, kind);
    return [...new Set([...counts.keys(), ...Object.keys(ownLimits(limits, kind))])].filter(
      (name) => (counts.get(name) ?? 0) >= limitOf(limits, kind, name),
    );
  };
  return {
    fullQueues: full("queue"),
    fullRepositories: full("repository"),
    fullLabels: new Set(fullLabels(countLabels(active), limits)),
    offers: freeWorkers(facts).map(({ labels }) => labels),
  };
}

export function hasLabels(labels: readonly string[], needs: readonly string[]): boolean {
  return needs.every((need) => labels.includes(need));
}

/** `due` is in the order of execution. A run goes to the worker with the most free slots, so that work spreads. */
export function planDispatch(
  facts: DispatchFacts,
  due: readonly DueEntry[],
): readonly { readonly run: string; readonly worker: string }[] {
  const { active, limits } = facts;
  const free = new Map(freeWorkers(facts).map(({ id, labels, slots }) => [id, { labels, slots }]));
  const counts = { queue: countBy(active, "queue"), repository: countBy(active, "repository") };
  const labelled = countLabels(active);
  const isFull = (entry: DueEntry, kind: Kind): boolean =>
    (counts[kind].get(entry[kind]) ?? 0) >= limitOf(limits, kind, entry[kind]);
  const plan: { readonly run: string; readonly worker: string }[] = [];
  for (const entry of due) {
    if (isFull(entry, "queue") || isFull(entry, "repository")) continue;
    if (fullLabels(labelled, limits).some((label) => entry.needs.includes(label))) continue;
    const [found] = [...free]
      .filter(([, { labels, slots }]) => slots > 0 && hasLabels(labels, entry.needs))
      .toSorted(([a, x], [b, y]) => y.slots - x.slots || (a < b ? -1 : 1));
    if (found === undefined) continue;
    const [worker, { labels, slots }] = found;
    free.set(worker, { labels, slots: slots - 1 });
    for (const need of entry.needs) labelled.set(need, (labelled.get(need) ?? 0) + 1);
    for (const kind of KINDS) counts[kind].set(entry[kind], (counts[kind].get(entry[kind]) ?? 0) + 1);
    plan.push({ run: entry.run, worker });
  }
  return plan;
}

const KINDS = ["queue", "repository"] as const;
type Kind = (typeof KINDS)[number];

/** `slots` are the free ones. A worker that has been silent for a while gets nothing new. */
function freeWorkers({ workers, active, deadMs }: DispatchFacts): readonly WorkerFacts[] {
  const busy = countBy(active, "worker");
  return workers
    .filter(({ draining, heartbeatAgeMs }) => !draining && Math.abs(heartbeatAgeMs) <= deadMs / 2)
    .map((worker) => ({ ...worker, slots: worker.slots - (busy.get(worker.id) ?? 0) }))
    .filter(({ slots }) => slots > 0);
}

function countBy(active: readonly ActiveEntry[], key: Kind | "worker"): Map<string, number> {
  const counts = new Map<string, number>();
  for (const entry of active) counts.set(entry[key], (counts.get(entry[key]) ?? 0) + 1);
  return counts;
}

function countLabels(active: readonly ActiveEntry[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { needs } of active) for (const need of needs) counts.set(need, (counts.get(need) ?? 0) + 1);
  return counts;
}

function fullLabels(counts: ReadonlyMap<string, number>, { labels = {} }: DispatchLimits): readonly string[] {
  return Object.entries(labels).flatMap(([label, limit]) => ((counts.get(label) ?? 0) >= limit ? [label] : []));
}

function ownLimits(limits: DispatchLimits, kind: Kind): Readonly<Record<string, number>> {
  return (kind === "queue" ? limits.queues : limits.repositories) ?? {};
}

function limitOf(limits: DispatchLimits, kind: Kind, name: string): number {
  const own = ownLimits(limits, kind);
  const general = kind === "queue" ? limits.perQueue : limits.perRepository;
  return (Object.hasOwn(own, name) ? own[name] : general) ?? Infinity;
}
