import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type BuiltCommand, buildCommand } from "@holdfast/test-support/built-command";
import { workflowSource } from "@holdfast/test-support/cli-repositories";
import { canFakeTerminal, typeInTerminal } from "@holdfast/test-support/typed-terminal";

let holdfast: BuiltCommand;
let repository: string;

describe.skipIf(!canFakeTerminal())("on a terminal (needs util-linux script)", () => {
  beforeAll(async () => {
    holdfast = await buildCommand();
    repository = join(holdfast.directory, "repo");
    await mkdir(repository);
    await promisify(execFile)("git", ["init", "-q"], { cwd: repository });
    await writeFile(join(repository, "a.txt"), "one\n");
    await holdfast.run(["checkpoint", "--run", "r"], { cwd: repository });
    await writeFile(join(repository, "a.txt"), "two\n");
  }, 60_000);
  afterAll(() => holdfast.remove());

  test("colours, unless they are switched off", async () => {
    expect((await typed("list", "")).output).toContain("\u001b[1mr");
    expect((await typed("list --no-color", "")).output).not.toContain("\u001b[1m");
    expect((await typed("list", "", { NO_COLOR: "1" })).output).not.toContain("\u001b[1m");
  });

  test("a restore shows its plan and asks; Enter, no and the end of input change nothing", async () => {
    for (const answer of ["\n", "n\n", "\u0004"]) {
      const { output, status } = await typed("restore r@1", answer);
      expect(output).toContain("M\u001b[39m a.txt");
      expect(output).toContain("[y/N]");
      expect(output).toContain("Not restored; nothing was changed.");
      expect(output).not.toContain("error:");
      expect(status).toBe(4);
    }
    expect(await readFile(join(repository, "a.txt"), "utf8")).toBe("two\n");
  });

  test("Ctrl+C at the question: nothing changed, status 130", async () => {
    const { output, status } = await typed("restore r@1", "\u0003");
    expect(status).toBe(130);
    expect(output).toMatch(/\nInterrupted; nothing was changed\.\r?\n$/);
    expect(await readFile(join(repository, "a.txt"), "utf8")).toBe("two\n");
  });

  test("a file that two formats claim: each is offered in turn, and no to all changes nothing", async () => {
    const state = { issue_no: 1, current_stage: "impl", iteration: 1, worktree: "/w" };
    await writeFile(join(repository, "both.json"), JSON.stringify({ version: 1, workflow_id: "w", state }));
    const refused = await typed("format import both.json --run both", ["n\n", "\n"]);
    expect(refused.status).toBe(4);
    expect(refused.output).toMatch(/both\.json may be impl-json or loop-json[^]*impl-json\?[^]*loop-json\?/);
    const other = await typed("format import both.json --run both", ["n\n", "y\n"]);
    expect(other.output).toContain("(loop-json): at /checkpoint_id");
    expect((await typed("list", "")).output).not.toContain("both");
    const taken = await typed("format import both.json --run both", ["y\n"]);
    expect(taken.output).toContain("Imported 1 checkpoint of impl-json");
    expect(taken.status).toBe(0);
  });

  test("setup asks for the gate, shows the file, and writes it after Enter, not after a no or the end of the input", async () => {
    const refused = await typed("setup --agent command:sh", ["make\n", "n\n"], {}, SETUP_ASKS);
    expect([refused.status, refused.output]).toEqual([4, expect.stringContaining("gate: make")]);
    const path = join(repository, "holdfast.config.yaml");
    await expect(readFile(path, "utf8")).rejects.toThrow("ENOENT");
    const ended = await typed("setup --agent command:sh", ["make\n", "\u0004"], {}, SETUP_ASKS);
    expect(ended.status).toBe(4);
    await expect(readFile(path, "utf8")).rejects.toThrow("ENOENT");
    const taken = await typed("setup --agent command:sh", ["\n", "\n"], {}, SETUP_ASKS);
    expect([taken.status, taken.output]).toEqual([0, expect.stringContaining("Wrote ")]);
    expect(await readFile(path, "utf8")).toMatch(/^# .*\nagent: command:sh\n$/);
  });

  test("Ctrl+C twice in a run: the live view is gone, and what to do next stays", async () => {
    await writeFile(join(holdfast.directory, "hangs.ts"), workflowSource(HANGS));
    const author = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
    await promisify(execFile)("git", [...author, "commit", "-q", "--allow-empty", "-m", "first"], { cwd: repository });
    const command = "run --task Wait --workflow ../hangs.ts";
    const { output, status } = await typed(command, ["\u0003", "\u0003"], {}, /READY/);
    expect(status).toBe(130);
    expect(output.split("\u001b[J").at(-1)).toMatch(/Stopped at once\. Saved work: holdfast list\./);
  });

  test("yes restores", async () => {
    const { output, status } = await typed("restore r@1", "y\n");
    expect(status).toBe(0);
    expect(output).toContain("To undo:");
    expect(await readFile(join(repository, "a.txt"), "utf8")).toBe("one\n");
  });
});

/** A step that prints a line when it starts and when it is interrupted, and never ends. */
const HANGS = `import { defineWorkflow } from "holdfast";
export default defineWorkflow({
  name: "hangs",
  initial: "wait",
  stages: {
    async wait({ step }) {
      await step("wait", ({ signal }) => {
        signal.addEventListener("abort", () => console.log("READY"));
        setTimeout(() => console.log("READY"), 500);
        return new Promise(() => setInterval(() => {}, 1000));
      });
      return { event: "over", reason: "" };
    },
  },
  transitions: { wait: { over: "done" } },
  ends: { done: "done", fatal: "failed" },
  initialState: () => ({}),
});
`;

const SETUP_ASKS = /none\? \[none\]|\[Y\/n\]/;

function typed(
  command: string,
  answers: string | readonly string[],
  env: Readonly<Record<string, string>> = {},
  question = /\[y\/N\]/,
) {
  const { entry, directory } = holdfast;
  return typeInTerminal({
    command: `"${process.execPath}" "${entry}" ${command}`,
    cwd: repository,
    env: { HOME: directory, ...env },
    answers: [answers].flat(),
    question,
  });
}
