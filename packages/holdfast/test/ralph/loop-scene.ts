import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { BuiltCommand } from "@holdfast/test-support/built-command";
import { scratchFolder } from "../faults/harness/scratch.ts";

/** A repository, an agent that follows its own script and logs each call outside, and a check that counts. */
export interface LoopScene {
  readonly root: string;
  readonly repository: string;
  /** Words of a command that starts the loop of this name or resumes it. */
  readonly words: (name: string, iterations: number) => readonly string[];
  /** What the agents logged outside any worktree, by loop: iterations in the order of their calls. */
  readonly calls: (run: string) => readonly { readonly what: "begin" | "end"; readonly iteration: number }[];
  /** Path and text of every file of a loop's worktree. */
  readonly files: (run: string) => Readonly<Record<string, string>>;
}

export function prepareLoops(): LoopScene {
  const root = scratchFolder("loops");
  const repository = join(root, "repo");
  const callLogs = join(root, "callLogs");
  mkdirSync(repository);
  mkdirSync(callLogs);
  const git = (...args: readonly string[]): void => void execFileSync("git", args, { cwd: repository });
  git("init", "-q", "-b", "main");
  git("config", "user.name", "A");
  git("config", "user.email", "a@example.com");
  writeFileSync(join(repository, "README.md"), "# Shop\n");
  writeFileSync(join(repository, "check.sh"), CHECK);
  const agent = join(root, "agent.sh");
  writeFileSync(agent, agentScript(callLogs));
  chmodSync(agent, 0o755);
  git("add", ".");
  git("commit", "-qm", "first");
  return {
    root,
    repository,
    words: (name, iterations) => [
      "run",
      "--resume",
      "--workflow",
      "ralph",
      "--task",
      `Count for ${name}`,
      "--until",
      `sh check.sh ${iterations}`,
      "--no-first-check",
      "--agent",
      `command:${agent}`,
      "--yolo",
    ],
    calls: (run) =>
      readLines(join(callLogs, run)).map((line) => {
        const [what, iteration] = line.split(" ");
        return { what: what === "begin" ? "begin" : "end", iteration: Number(iteration) };
      }),
    files: (run) => readTree(join(root, "repo-worktrees", run)),
  };
}

/** Prints something else at each count: a loop that always fails alike is stuck. */
const CHECK = `lines=$(wc -l < first.txt 2>/dev/null || echo 0)
echo "FAIL case $(head -c "$lines" /dev/zero | tr '\\0' x)"
test "$lines" -ge "$1" && test "$(wc -l < second.txt)" -ge "$1"
`;

/** Two files, each with a line an iteration, and some time between them: done twice, or half, it shows. */
function agentScript(callLogs: string): string {
  return `#!/bin/sh
n=$HOLDFAST_ITERATION
run=$(basename "$PWD")
echo "begin $n" >> "${callLogs}/$run"
echo "line $n" >> first.txt
sleep 0.0$((n % 9 + 1))
echo "line $n" >> second.txt
echo "$n" > "only-$n.txt"
echo "end $n" >> "${callLogs}/$run"
echo "wrote line $n"
`;
}

function readLines(path: string): readonly string[] {
  try {
    return readFileSync(path, "utf8").split("\n").slice(0, -1);
  } catch {
    return [];
  }
}

function readTree(directory: string): Readonly<Record<string, string>> {
  const files: Record<string, string> = {};
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name).slice(directory.length + 1);
    if (entry.isFile() && path !== ".git" && !path.startsWith(".tmp/"))
      files[path] = readFileSync(join(directory, path), "utf8");
  }
  return files;
}

export async function idOf(command: BuiltCommand, scene: LoopScene, words: readonly string[]): Promise<string> {
  const { stdout, stderr } = await command.run(["--json", ...words, "--dry-run"], { cwd: scene.repository });
  const id: unknown = JSON.parse(stdout || "{}").plan?.id;
  if (typeof id !== "string") throw new Error(`no plan: ${stderr}`);
  return id;
}
