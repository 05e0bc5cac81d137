/**
 * How much dearer than `git status` are a durable snapshot and a restore? node bench/workspace.ts [files]
 * One changed file in a worktree of many; all measured in turn in one run, so that the ratios mean something on a busy machine.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openGitWorkspaces } from "@holdfast/git/workspaces";

const FILES = Number(process.argv[2] ?? 50_000);
const ROUNDS = Number(process.argv[3] ?? 15);
const base = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
const root = join(base, "repo");
const git = (...args: string[]): Buffer =>
  execFileSync("git", args, { cwd: root, stdio: ["ignore", "pipe", "ignore"] });
const print = (text: string): void => void process.stdout.write(`${text}\n`);

function build(): void {
  mkdirSync(root);
  for (let number = 0; number < FILES; number++) {
    const folder = join(root, `package-${number % 50}`, `module-${Math.floor(number / 50) % 40}`);
    if (number < 2000) mkdirSync(folder, { recursive: true });
    const lines = Array.from(
      { length: 15 + (number % 30) },
      (_, line) => `export const value${line} = ${number * line};\n`,
    );
    writeFileSync(join(folder, `file-${number}.ts`), `// file ${number}\n${lines.join("")}`);
  }
  writeFileSync(join(root, ".gitignore"), "node_modules/\n*.log\ndist/\n");
  git("init", "-q");
  git("config", "gc.auto", "0");
  git("add", "-A");
  git("-c", "user.name=Bench", "-c", "user.email=bench@example.invalid", "commit", "-qm", "first");
  git("repack", "-qad");
  git("status");
}

const times = new Map<string, number[]>();
async function timed<T>(name: string, act: () => T | Promise<T>): Promise<T> {
  const start = performance.now();
  const value = await act();
  times.set(name, [...(times.get(name) ?? []), performance.now() - start]);
  return value;
}

function quantile(values: readonly number[], at: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * at))] ?? 0;
}

try {
  build();
  const workspaces = await openGitWorkspaces(root);
  const workspace = await workspaces.open(root);
  const target = join(root, "package-1", "module-1", "file-51.ts");
  const original = readFileSync(target);
  const at = "2026-01-01T00:00:00Z";
  let sequence = 1;
  const snapshot = () => workspace.snapshot({ run: "bench", sequence: sequence++, message: "bench", at });
  const clean = await timed("first snapshot ever", snapshot);

  for (let round = 0; round < ROUNDS; round++) {
    await timed("git status", () => git("status", "--porcelain"));
    writeFileSync(target, `${String(original)}// round ${round}\n`);
    await timed("git status", () => git("status", "--porcelain"));
    const from = await timed("snapshot, one file changed", snapshot);
    await timed("snapshot, nothing changed", snapshot);
    await timed("current files, nothing changed", () => workspace.currentFiles());
    await timed("plan + apply restore", async () =>
      workspace.applyRestore(await workspace.planRestore({ from, to: clean })),
    );
  }
  const unit = quantile(times.get("git status") ?? [], 0.5);
  print(
    `${FILES} files, ${ROUNDS} rounds, ${process.platform} ${process.arch}, node ${process.version}, ${String(git("--version")).trim()}`,
  );
  for (const [name, values] of times) {
    const [p50, p90] = [quantile(values, 0.5), quantile(values, 0.9)];
    print(
      `${name.padEnd(30)} p50 ${p50.toFixed(1).padStart(8)} ms  p90 ${p90.toFixed(1).padStart(8)} ms  x${(p50 / unit).toFixed(2)}`,
    );
  }
} finally {
  rmSync(base, { recursive: true, force: true });
}
