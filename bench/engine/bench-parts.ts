import { ALL_CHECKPOINTS } from "../../packages/holdfast/src/core/checkpoint/checkpoint-switches.ts";
import { defaultErrorPolicy } from "../../packages/holdfast/src/core/error-policy/policy.ts";
import { defaultRetention } from "../../packages/holdfast/src/core/retention/retention.ts";
import type { WorkParts } from "../../packages/holdfast/src/engine/work-parts.ts";
import type { Store } from "../../packages/holdfast/src/ports/store.ts";
import { systemClock } from "../../packages/holdfast/src/system/clock.ts";

/** The engine over a real store and nothing else: no repository, no agents, no forge. */
export function benchParts(store: Store): WorkParts {
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
    implDocument: unused,
    crunchTriggers: unused,
    agentLog: unused,
    agentAnswer: () => ({ write: () => undefined, read: () => null, remove: () => undefined }),
    wait: unused,
  };
}

function unused(): never {
  throw new Error("this benchmark runs plain steps only");
}
