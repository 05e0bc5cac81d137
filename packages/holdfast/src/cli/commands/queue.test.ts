import type { RunStatus } from "@holdfast/core/status";
import { sampleHolder, sampleRunning } from "@holdfast/test-support/sample-run";
import { expect, test } from "vitest";
import type { QueueEntry } from "../../worker/read-queue.ts";
import { displayWidth } from "../output/text.ts";
import { countMissing, entriesText } from "./queue.ts";

const PAGE = { width: 80, color: false, terminal: true, now: 0, offset: () => 0, program: "holdfast" };

test("a page of 80 columns shows who executes a run and why another waits; the repository goes first", () => {
  const entry: QueueEntry = {
    run: "issue-44",
    store: "s",
    repository: "acme/storefront",
    queue: "claude",
    priority: 10,
    needs: [],
    state: "active",
    wakeAt: null,
    worker: "build-machine-1-49eac790313e",
    why: null,
    failures: 0,
  };
  const late: QueueEntry = { ...entry, run: "issue-45", state: "waiting", worker: null, wakeAt: 90_000 };
  const waits: QueueEntry = { ...late, run: "issue-46", priority: 0, wakeAt: 0, why: "no worker has agent:claude" };
  expect(entriesText([entry, late, waits], 0, PAGE)).toMatchInlineSnapshot(`
    "RUN       QUEUE   PRIORITY  STATE    DUE       WORKER           WHY
    issue-44  claude  high      active             build-machine-…
    issue-45  claude  high      waiting  in 1 min
    issue-46  claude            waiting  now                        no worker has
                                                                    agent:claude
    "
  `);
  const wide = entriesText([entry, late, waits], 0, { ...PAGE, width: 140 });
  expect(wide).toContain("acme/storefront");
  expect(Math.max(...wide.split("\n").map(displayWidth))).toBeLessThanOrEqual(140);
});

test("a submitted run without an entry is missing only if a worker would execute it", () => {
  const of = (id: string, status: RunStatus, submitted = true) => ({ run: { id }, status, submitted });
  const queued: RunStatus = { kind: "queued", holder: null, position: null };
  const crashed: RunStatus = { kind: "crashed", certain: true, holder: sampleHolder };
  const paused: RunStatus = { kind: "paused", reason: null, started: true };
  const runs = [of("a", queued), of("b", crashed), of("c", paused), of("d", sampleRunning()), of("e", queued, false)];
  expect(countMissing([], runs)).toBe(2);
  expect(countMissing(["a"], runs)).toBe(1);
});
