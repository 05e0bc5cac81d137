/**
 * What strictness costs: decode and encode of a 10 MB document against the plain parser and writer alone, interleaved.
 * Run: node bench/formats.ts
 */
import { implJson } from "@holdfast/formats/impl-json";
import { loopJson } from "@holdfast/formats/loop-json";
import type { ExternalCheckpoint, Format } from "@holdfast/formats/format";
import { printRatio } from "./report.ts";

const MEGABYTE = 1_000_000;
const ROUNDS = 30;

/** A build log: short lines, paths, quotes, code with colons and braces. */
function log(bytes: number): string {
  const lines: string[] = [];
  for (let size = 0, n = 0; size < bytes; n += 1) {
    const line = [
      `src/auth/session-${n % 97}.ts:${n}:7 - error TS2345: Argument of type 'string' is not assignable.`,
      `  const shown = state.kind === "open" ? { at: ${n}, why: reason } : null;`,
      `    at Object.<anonymous> (/srv/trees/issue-42/test/login.test.ts:${n % 400}:13)`,
      "The tests pass now, but the review asks for one more case: an empty list must be refused with a clear message.",
    ][n % 4];
    lines.push(line ?? "");
    size += (line ?? "").length + 1;
  }
  return lines.join("\n");
}

function historyEntry(n: number): object {
  return {
    stage: n % 2 === 0 ? "impl" : "review",
    iteration: n >> 1,
    timestamp: "2026-01-15T10:15:00.123456",
    result: n % 2 === 0 ? "success" : "retry",
    score: n % 2 === 0 ? null : n % 100,
    artifact: `/srv/trees/issue-42/.tmp/review-iter-${n}.json`,
  };
}

function implDocument(share: number): object {
  const state = {
    issue_no: 42,
    current_stage: "review",
    iteration: 3,
    worktree: "/srv/trees/issue-42",
    plan_file: null,
  };
  const history = Array.from({ length: Math.floor((share * MEGABYTE * 10) / 260) }, (_, n) => historyEntry(n));
  const last_feedback = log((1 - share) * 9.5 * MEGABYTE);
  return {
    version: 2,
    timestamp: "2026-01-15T10:30:00.000000+00:00",
    state: { ...state, last_feedback, last_score: 75, history, pr_number: null, pr_url: null },
  };
}

function loopDocument(): object {
  const message = (n: number): object => ({
    role: n % 2 === 0 ? "user" : "assistant",
    content: log(1200 + (n % 700)),
    id: `msg_${n}`,
    usage: { input: n, output: n * 2 },
  });
  return {
    checkpoint_id: "0b0e7a52-9d1c-4f0e-8a53-0c9a4d2c7f11",
    workflow_id: "ralph-fix-tests-a1b2c3d4",
    loop_id: "ralph-fix-tests-a1b2c3d4",
    workflow_type: "ralph_loop",
    created_at: "2026-02-02T21:05:00Z",
    trigger: "iteration",
    state: {
      phase: "construction",
      progress: { total_steps: 200, completed_steps: 5, percentage: 2.5 },
      iteration: { current: 5, max: 200, failures: 0 },
      artifacts: Array.from({ length: 10_000 }, (_, n) => ({
        path: `src/a/${n}.ts`,
        hash: "ab".repeat(32),
        status: "modified",
      })),
      variables: { messages: Array.from({ length: 4800 }, (_, n) => message(n)) },
    },
    metadata: { compression: "gzip", schema_version: "2.0" },
  };
}

/** Processor time of this thread: parsing waits for nothing, and other programs on the machine do not count. */
function timed(act: () => unknown): number {
  const start = process.threadCpuUsage();
  act();
  const { user, system } = process.threadCpuUsage(start);
  return (user + system) / 1000;
}

const AIM = { atMost: 1.5 };

function compare(label: string, format: Format, document: object, aim: { readonly atMost?: number }): void {
  const bytes = new TextEncoder().encode(JSON.stringify(document, null, 2));
  const file = { path: "a.json", bytes, compression: "none" } as const;
  const utf8 = new TextDecoder();
  const encoder = new TextEncoder();
  const plain: unknown = JSON.parse(utf8.decode(bytes));
  const first = format.decode(file).checkpoints[0];
  if (first === undefined) throw new Error("It has no checkpoint");
  const checkpoint: ExternalCheckpoint = first;
  const times = { decode: [0], parse: [0], encode: [0], write: [0] };
  for (const list of Object.values(times)) list.pop();
  for (let round = 0; round < ROUNDS; round += 1) {
    times.parse.push(timed(() => JSON.parse(utf8.decode(bytes))));
    times.decode.push(timed(() => format.decode(file)));
    times.write.push(timed(() => encoder.encode(JSON.stringify(plain, null, 2))));
    times.encode.push(timed(() => format.encode(checkpoint)));
  }
  // The clock ticks coarsely, so rounds are added up; the first ones warm up.
  const mean = (list: readonly number[]): number => list.slice(5).reduce((a, b) => a + b, 0) / (list.length - 5);
  const size = `${(bytes.length / MEGABYTE).toFixed(1)} MB`;
  const unit = "ms";
  printRatio({
    what: `${label}, ${size}: decode / JSON.parse`,
    ours: mean(times.decode),
    peer: mean(times.parse),
    unit,
    ...aim,
  });
  printRatio({
    what: `${label}, ${size}: encode / JSON.stringify`,
    ours: mean(times.encode),
    peer: mean(times.write),
    unit,
    ...aim,
  });
}

compare("impl-json", implJson, implDocument(0.02), AIM);
compare("loop-json", loopJson, loopDocument(), AIM);
// Far from anything a run writes: where strictness costs most.
compare("impl-json, 38,000 history entries", implJson, implDocument(1), {});
