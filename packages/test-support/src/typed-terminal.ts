// Runs a command on a pseudo-terminal and types answers, for tests of prompts.

import { execFileSync, spawn } from "node:child_process";

/** The `script` of util-linux gives a child a real pseudo-terminal; other systems have other options. */
const SCRIPT = "script";

export function canFakeTerminal(): boolean {
  try {
    return execFileSync(SCRIPT, ["--version"], { encoding: "utf8" }).includes("util-linux");
  } catch {
    return false;
  }
}

/** Runs a shell command on a terminal and types each answer once its question appears. */
export async function typeInTerminal(params: {
  readonly command: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly answers: readonly string[];
  readonly question: RegExp;
}): Promise<{ readonly output: string; readonly status: number | null }> {
  const { command, cwd, answers, question } = params;
  const child = spawn(SCRIPT, ["-qec", command, "/dev/null"], {
    cwd,
    env: { PATH: process.env["PATH"], TERM: "xterm", ...params.env },
  });
  let output = "";
  let answered = 0;
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    const answer = answers[answered];
    if (answer === undefined || output.split(question).length - 1 <= answered) return;
    answered += 1;
    child.stdin.write(answer);
  });
  const status = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { output, status };
}
