/**
 * What does recording cost? The same loop with and without it, in turn in one run: an agent that is a real process and does next to nothing, a prompt
 * of 20 KB, 100 lines of answer. node bench/recording.ts [rounds] [iterations]
 */
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync, chmodSync, mkdirSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openHoldfast } from "../packages/holdfast/src/open.ts";
import { defineWorkflow } from "@holdfast/core/workflow";
import { printRatio, quantile } from "./report.ts";

const ROUNDS = Number(process.argv[2] ?? 5);
const ITERATIONS = Number(process.argv[3] ?? 10);
const MODES = ["default", "logged"] as const;
type Mode = (typeof MODES)[number];

type State = { readonly rounds: number };
const PROMPT = Array.from({ length: 400 }, (_, line) => `Rule ${line}: what is said here holds for all of it.`).join(
  "\n",
);

const loop = defineWorkflow<State>({
  name: "bench",
  initial: "work",
  transitions: { work: { again: "work", enough: "done" } },
  ends: { done: "done" },
  maxVisits: 10_000,
  initialState: () => ({ rounds: 0 }),
  stages: {
    work: async ({ agent, state }) => {
      const rounds = state.rounds + 1;
      await agent({ name: "agent", role: "impl", prompt: `Round ${rounds}\n${PROMPT}`, model: null, yolo: true });
      const event = rounds < ITERATIONS ? "again" : "enough";
      return { event, reason: `round ${rounds}`, state: { rounds } };
    },
  },
});

interface Figures {
  readonly wall: number;
  readonly cpu: number;
  readonly bytes: number;
}

// What is compiled first would be charged to whoever came first.
for (const mode of MODES) await measure(mode);
const all: Record<Mode, Figures[]> = { default: [], logged: [] };
for (let round = 0; round < ROUNDS; round += 1)
  for (const mode of round % 2 === 0 ? MODES : MODES.toReversed()) all[mode].push(await measure(mode));

const median = (mode: Mode, of: keyof Figures): number =>
  quantile(
    all[mode].map((one) => one[of]),
    0.5,
  );
const ratio = (what: string, of: keyof Figures, unit: string): void =>
  printRatio({ what, ours: median("logged", of), peer: median("default", of), unit });
ratio("a recorded iteration to one that is not: wall time", "wall", "ms");
ratio("the same: processor time of our own process", "cpu", "ms");
ratio("the same: bytes of the store", "bytes", "KB");

async function measure(mode: Mode): Promise<Figures> {
  const base = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  try {
    const root = join(base, "repo");
    mkdirSync(root);
    const git = (...args: readonly string[]): void =>
      void execFileSync("git", ["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid", ...args], {
        cwd: root,
      });
    git("init", "-q", "-b", "main");
    writeFileSync(join(root, "a.txt"), "one\n");
    git("add", "-A");
    git("commit", "-qm", "first");
    const program = join(base, "agent.sh");
    writeFileSync(
      program,
      '#!/bin/sh\ncat >/dev/null\necho "$$" >> a.txt\nseq -f "Line %g of what the agent has to say" 100\n',
    );
    chmodSync(program, 0o755);
    await using holdfast = await openHoldfast({ cwd: root, forge: { kind: "none", path: null, host: null } });
    const plan = await holdfast.work.plan({
      workflow: loop,
      work: { kind: "task", text: "bench" },
      agent: `command:${program}`,
      mode,
    });
    const began = performance.now();
    const used = process.cpuUsage();
    const { outcome } = await holdfast.work.start(plan, {});
    const { user, system } = process.cpuUsage(used);
    const wall = performance.now() - began;
    if (outcome.kind !== "done") throw new Error(`the loop ended as ${outcome.kind}`);
    const bytes = sizeOf(join(root, ".git", "holdfast"));
    return { wall: wall / ITERATIONS, cpu: (user + system) / 1000 / ITERATIONS, bytes: bytes / 1000 / ITERATIONS };
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
}

/** Of databases and what lies beside them; logs of agents are kept in any mode. */
function sizeOf(folder: string): number {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes("/logs"))
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}
