/**
 * Metrics of runs, through the OpenTelemetry API. Without an SDK, which the user loads with `--import`, the API does nothing. What is counted
 * follows from the journal: the entries of a commit are counted once the store has confirmed them.
 */
import { type Attributes, type BatchObservableCallback, type MeterProvider, metrics } from "@opentelemetry/api";
import type { Adapters } from "@holdfast/core/adapters";
import type { Agent, AgentOutcome, AgentTask } from "@holdfast/core/agent";
import type { NewEntry } from "@holdfast/core/journal";
import type { Store } from "@holdfast/core/store";
import { HoldfastError } from "@holdfast/platform/error";

type Counted = "holdfast.run.ended" | "holdfast.run.waited" | "holdfast.run.recovered" | "holdfast.step.ended";

export interface Count {
  readonly name: Counted;
  readonly attributes: Attributes;
}

/** What an entry of the journal adds to the counters. No attribute has a name that grows with the number of runs. */
export function countsOf({ kind, body }: NewEntry): Count | null {
  switch (kind) {
    case "run.ended":
      return { name: "holdfast.run.ended", attributes: { "holdfast.outcome": String(body["outcome"]) } };
    case "run.waiting":
      return { name: "holdfast.run.waited", attributes: { "holdfast.waiting_for": String(body["for"]) } };
    case "run.resumed":
      return { name: "holdfast.run.recovered", attributes: {} };
    case "step.finished":
    case "step.failed":
    case "step.interrupted":
    case "step.adopted":
    case "step.lost":
      return { name: "holdfast.step.ended", attributes: { "holdfast.outcome": kind.slice("step.".length) } };
    default:
      return null;
  }
}

/** Adapters whose commits and agent calls are measured. */
export function measureAdapters(adapters: Adapters): Adapters {
  const instruments = createInstruments();
  return {
    ...adapters,
    store: measuredStore(adapters.store, instruments),
    agent: (provider) => measuredAgent(adapters.agent(provider), instruments),
  };
}

/** Sends what was measured. A process of one short run ends before the SDK would send it by itself. */
export async function flushMetrics(): Promise<void> {
  const provider: MeterProvider & { readonly forceFlush?: unknown } = metrics.getMeterProvider();
  if (typeof provider.forceFlush !== "function") return;
  // A collector that is away must not keep a run from ending.
  const limit = new Promise((resolve) => setTimeout(resolve, FLUSH_MS).unref());
  await Promise.race([Promise.resolve(provider.forceFlush()).catch(() => undefined), limit]);
}

/** What a worker knows of its load. */
export interface WorkerLoad {
  /** null: no limit. */
  readonly slots: number | null;
  readonly busy: number;
  /** Runs of its repositories, by status. */
  readonly runs: Readonly<Record<string, number>>;
  /** Entries of its queue, by state: waiting, due, active. */
  readonly entries: Readonly<Record<string, number>>;
}

/** Reports the load of this process's worker whenever metrics are collected. */
export function observeWorker(load: () => WorkerLoad): void {
  const meter = metrics.getMeter("holdfast");
  const gauge = (name: string, unit: string, description: string) =>
    meter.createObservableGauge(name, { unit, description });
  const slots = gauge("holdfast.worker.slots", "{run}", "How many runs the worker executes at once");
  const busy = gauge("holdfast.worker.busy", "{run}", "Runs that the worker executes");
  const runs = gauge("holdfast.runs", "{run}", "Runs of the worker's repositories, by status");
  const entries = gauge("holdfast.queue.entries", "{run}", "Entries of the queue, by state");
  const observe: BatchObservableCallback = (result) => {
    const now = load();
    if (now.slots !== null) result.observe(slots, now.slots);
    result.observe(busy, now.busy);
    for (const [status, count] of Object.entries(now.runs)) result.observe(runs, count, { "holdfast.status": status });
    for (const [state, count] of Object.entries(now.entries))
      result.observe(entries, count, { "holdfast.state": state });
  };
  meter.addBatchObservableCallback(observe, [slots, busy, runs, entries]);
}

const FLUSH_MS = 2000;
/** Seconds. */
const COMMIT_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const CALL_BUCKETS = [1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 3600];
const TOKEN_BUCKETS = [1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216];

type Instruments = ReturnType<typeof createInstruments>;

function createInstruments() {
  const meter = metrics.getMeter("holdfast");
  const counter = (name: string, unit: string, description: string) => meter.createCounter(name, { unit, description });
  const histogram = (name: string, unit: string, description: string, buckets: number[]) =>
    meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: buckets } });
  return {
    counted: {
      "holdfast.run.ended": counter("holdfast.run.ended", "{run}", "Runs that ended, by outcome"),
      "holdfast.run.waited": counter("holdfast.run.waited", "{run}", "Times that a run began to wait, by what for"),
      "holdfast.run.recovered": counter("holdfast.run.recovered", "{run}", "Runs resumed after their process died"),
      "holdfast.step.ended": counter("holdfast.step.ended", "{step}", "Steps that ended, by outcome"),
    } satisfies Record<Counted, unknown>,
    leasesLost: counter("holdfast.lease.lost", "{lease}", "Leases that another process took over"),
    commit: histogram("holdfast.commit.duration", "s", "Time from a commit to its confirmation", COMMIT_BUCKETS),
    cost: counter("holdfast.agent.cost", "{USD}", "What agents report that their calls cost"),
    call: histogram("gen_ai.client.operation.duration", "s", "Duration of agent calls", CALL_BUCKETS),
    tokens: histogram("gen_ai.client.token.usage", "{token}", "Tokens of agent calls", TOKEN_BUCKETS),
  };
}

function measuredStore(store: Store, instruments: Instruments): Store {
  return {
    ...store,
    async commit(commit) {
      const began = performance.now();
      const attributes = { "holdfast.checkpoint": commit.checkpoint !== undefined };
      try {
        const committed = await store.commit(commit);
        instruments.commit.record(secondsSince(began), attributes);
        for (const entry of commit.entries ?? []) {
          const count = countsOf(entry);
          if (count !== null) instruments.counted[count.name].add(1, count.attributes);
        }
        return committed;
      } catch (error) {
        const code = error instanceof HoldfastError ? error.code : "INTERNAL";
        instruments.commit.record(secondsSince(began), { ...attributes, "error.type": code });
        if (code === "LEASE_LOST") instruments.leasesLost.add(1);
        throw error;
      }
    },
  };
}

function measuredAgent(agent: Agent, { call, tokens, cost }: Instruments): Agent {
  return {
    ...agent,
    async run(task) {
      const began = performance.now();
      const outcome = await agent.run(task);
      const attributes = attributesOf(agent.name, task, outcome);
      const failure = outcome.kind === "failed" ? { "error.type": outcome.cause } : {};
      call.record(secondsSince(began), { ...attributes, ...failure });
      const { inputTokens, outputTokens, microUsd } = outcome.usage;
      if (inputTokens !== null) tokens.record(inputTokens, { ...attributes, "gen_ai.token.type": "input" });
      if (outputTokens !== null) tokens.record(outputTokens, { ...attributes, "gen_ai.token.type": "output" });
      if (microUsd !== null) cost.add(microUsd / 1_000_000, attributes);
      return outcome;
    },
  };
}

/** The model of an agent without a known provider can be a command line, which has no place in a metric. */
function attributesOf(agent: string, { model }: Pick<AgentTask, "model">, { usage }: AgentOutcome): Attributes {
  const provider = PROVIDERS[agent];
  return {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.provider.name": provider ?? agent,
    "gen_ai.agent.name": agent,
    ...(provider === undefined || model === null ? {} : { "gen_ai.request.model": model }),
    ...(usage.model === undefined ? {} : { "gen_ai.response.model": usage.model }),
  };
}

/** Of agents that call one provider, its name in the semantic conventions. */
const PROVIDERS: Readonly<Record<string, string>> = { claude: "anthropic", codex: "openai", gemini: "gcp.gemini" };

function secondsSince(began: number): number {
  return (performance.now() - began) / 1000;
}
