import { ALL_CHECKPOINTS } from "@holdfast/core/checkpoint";
import { defaultErrorPolicy } from "@holdfast/core/error-policy";
import { defaultRetention } from "@holdfast/core/retention";
import type { Adapters } from "@holdfast/core/adapters";
import type { Store } from "@holdfast/core/store";
import { systemClock } from "@holdfast/platform/clock";

/** The engine over a real store and nothing else: no repository, no agents, no forge. */
export function benchParts(store: Store): Adapters {
  return {
    store,
    workspaces: null,
    clock: systemClock,
    random: () => "bench",
    retention: defaultRetention,
    maxUntrackedBytes: undefined,
    includeIgnored: false,
    ownsRefs: false,
    liveness: () => "alive",
    leaseWaitMs: 0,
    requests: null,
    worktreePath: undefined,
    agent: unused,
    agentIdleMs: null,
    checkpointEveryMs: null,
    errorPolicy: defaultErrorPolicy,
    checkpoints: ALL_CHECKPOINTS,
    prices: {},
    forge: null,
    branches: { of: unused, asking: unused },
    commands: { run: unused, endMarked: async () => ({ ended: 0, supported: true }) },
    syntax: { check: unused },
    outputs: unused,
    crunchTriggers: unused,
    agentLog: unused,
    agentAnswer: () => ({ write: () => undefined, read: () => null, remove: () => undefined }),
    wait: unused,
  };
}

function unused(): never {
  throw new Error("this benchmark runs plain steps only");
}
