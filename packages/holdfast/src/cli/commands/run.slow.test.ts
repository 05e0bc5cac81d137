import { execFile } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test as sequentialTest, test } from "vitest";
import { openLocalForge } from "@holdfast/forges/local";
import { GOOD, type WorkPlace, workSuite, workflowSource } from "@holdfast/test-support/cli-repositories";
import { defaultCrunchSettings } from "@holdfast/workflows/crunch/default-settings";
import { openHoldfast } from "../../open.ts";

describe("work", () => {
  /** Each test has its own directory, and mostly waits for disks. */
  const test = sequentialTest.concurrent;

  const work = workSuite();

  const HANG = { when: { role: "impl" }, edits: [{ do: "write", path: "half.txt", text: "half\n" }], hang: true };

  describe("run", () => {
    test("a dry run prints its plan, and does nothing, not even create a store", async () => {
      const place = await work.begin();
      const { status, stdout } = await place.run(
        "run",
        "1",
        "--no-review",
        "--max-cost",
        "2",
        "--agent",
        "codex",
        "--dry-run",
      );
      expect(status).toBe(0);
      for (const text of ["issue-1", "issue #1: Answer", "holdfast/issue-1", "10 iterations, $2.00", "impl_done → pr"])
        expect(stdout).toContain(text);
      expect(existsSync(join(place.clone, ".git/holdfast"))).toBe(false);
      expect(await place.git("branch", "--list")).toBe("* main");
    });

    test("a provider name alone selects an agent, for each role", async () => {
      const place = await work.begin();
      await writeFile(join(place.clone, "holdfast.config.yaml"), "models:\n  review: codex\n");
      const dry = async (...flags: readonly string[]) => await place.run("run", "1", ...flags, "--dry-run");
      const crunch = ["--workflow", "crunch", "--agent", "command:true"];
      for (const flags of [
        ["--agent", "command:true", "--review-model", "codex"],
        ["--impl-model", "codex"],
        ["--agent", "codex"],
        [...crunch, "--model", "quality=codex"],
        ["--workflow", "ralph", "--until", "true", "--agent", "codex"],
      ]) {
        const planned = await dry(...flags);
        expect(planned, flags.join(" ") + planned.stderr).toMatchObject({ status: 0 });
        expect(planned.stdout, flags.join(" ")).toContain("codex");
      }
      expect(await dry("--agent", "command:true", "--review-model", "codx")).toMatchObject({
        status: 2,
        stderr: expect.stringContaining("Did you mean codex?"),
      });
      expect(await dry("--agent", "command:true", "--review-model", "command")).toMatchObject({
        status: 2,
        stderr: expect.stringContaining("after the colon"),
      });
    });

    test("an issue becomes a pull request; a done run stays done", async () => {
      const place = await work.begin();
      const agent = await place.agent([GOOD]);
      const done = await place.run("run", "1", "--no-review", "--agent", agent);
      expect(done.status, done.stdout + done.stderr).toBe(0);
      expect(done.stdout).toMatch(/Done issue-1: Pull request #\d+ is open/);
      const forge = openLocalForge({ repository: place.remote });
      expect(await forge.findPullRequest("holdfast/issue-1")).toMatchObject({
        title: "[feat][#1] Answer",
        state: "open",
      });
      expect(await place.json("status", "1")).toMatchObject({
        run: { status: { kind: "done" }, budget: { spent: { tokens: 1000 } } },
      });
      const again = await place.run("resume", "issue-1");
      expect(again).toMatchObject({ status: 0 });
      expect(again.stdout).toContain("Done issue-1");
      expect(await place.run("run", "1", "--resume", "--agent", agent)).toMatchObject({ status: 0 });
      expect(await place.run("resume")).toMatchObject({ status: 3 });
      expect((await place.run("output", "1")).stdout).toContain("── agent (stage 2 of the run)");
      expect((await place.run("output", "1", "--step", "ag")).stdout).toContain("── agent (stage 2 of the run)");
      expect(await place.run("output", "1", "--step", "agnt")).toEqual({
        status: 2,
        stdout: "",
        stderr: 'error: No agent was called in a step "agnt" of issue-1\nhint:  Did you mean agent? One of: agent.\n',
      });
      // The run of this worktree has only manual checkpoints, and no agent.
      expect(await place.run("checkpoint", "--run", "mine")).toMatchObject({ status: 0 });
      expect((await place.run("output", "--follow")).stdout).toContain("── agent (stage 2 of the run)");
      expect(await place.run("output", "mine", "--follow")).toMatchObject({
        stdout: "",
        stderr: expect.stringContaining("No agent was called in mine."),
      });
      expect((await place.run("stop", "issue-1")).stdout).toBe("issue-1 is not running (done).\n");
    });

    test("with --json every line is an object; an issue that has its pull request gets a second one only with --again", async () => {
      const place = await work.begin();
      const agent = await place.agent([GOOD]);
      const { stdout, stderr } = await place.run("run", "1", "--no-review", "--agent", agent, "--json");
      expect(stderr).toBe("");
      const lines = stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
      expect(lines[0]).toMatchObject({ run: "issue-1", kind: "started" });
      expect(lines.at(-1)).toMatchObject({
        kind: "result",
        run: { id: "issue-1", status: { kind: "done" } },
        result: { kind: "done" },
      });
      const again = await place.run("run", "1", "--no-review", "--agent", agent);
      expect(again).toMatchObject({
        status: 0,
        stdout: expect.stringMatching(/^Done issue-1: Pull request #\d+ is open/),
      });
      expect(again.stderr).toContain("For a new run, add --again.");
      expect(await place.run("list", "--json")).toMatchObject({ stdout: expect.not.stringContaining("issue-1-2") });
      const second = await place.run("run", "1", "--no-review", "--agent", agent, "--again");
      expect(second, second.stdout + second.stderr).toMatchObject({
        status: 0,
        stdout: expect.stringContaining("Done issue-1-2"),
      });
    });

    test("a deleted store is missing, not new; an empty directory in its place is a new store", async () => {
      const place = await work.begin();
      const agent = await place.agent([GOOD]);
      expect(await place.run("checkpoint", "--run", "issue-1")).toMatchObject({ status: 0 });
      const store = join(place.clone, ".git/holdfast");
      await rm(store, { recursive: true });
      const writing = [["run", "1", "--agent", agent], ["checkpoint"]];
      const looking = [
        ["list"],
        ["status"],
        ["show", "issue-1"],
        ["verify"],
        ["checkpoint", "--dry-run"],
        ["run", "1", "--agent", agent, "--dry-run"],
      ];
      for (const command of [...writing, ...looking])
        expect(await place.run(...command), command.join(" ")).toMatchObject({
          status: 6,
          stdout: "",
          stderr: expect.stringMatching(/the repository has .*issue-1.*: the store was deleted/),
        });
      expect(await place.run("doctor")).toMatchObject({ status: 1, stdout: expect.stringMatching(/^fail +store /m) });
      expect(existsSync(store)).toBe(false);
      await mkdir(store);
      expect((await place.run("list")).stderr).toContain("No runs yet");
      expect(await place.run("checkpoint")).toMatchObject({ status: 0 });
    });

    test("a missing remote is waited for on resume: exit 7, and --wait continues when it is back", async () => {
      const place = await work.begin();
      const started = place.start("run", "1", "--no-review", "--agent", await place.agent([HANG]));
      await started.says("half.txt");
      started.child.kill("SIGKILL");
      await started.ended;
      await rename(place.remote, `${place.remote}.away`);
      const asked = await place.run("resume", "1", "--dry-run");
      expect(asked.stdout + asked.stderr).toMatch(/there is no git repository at/);
      const resumed = await place.run("resume", "1");
      expect(resumed, resumed.stdout + resumed.stderr).toMatchObject({ status: 7 });
      expect(resumed.stdout).toContain("Waiting for the forge issue-1");
      expect((await place.json("status", "1")).run.status).toMatchObject({ kind: "waiting", for: "forge" });
      const waiting = place.start("resume", "1", "--wait", "--agent", await place.agent([GOOD]));
      await waiting.says("Waiting for the forge issue-1");
      await rename(`${place.remote}.away`, place.remote);
      const done = await waiting.ended;
      expect(done, done.stdout + done.stderr).toMatchObject({ status: 0 });
    });

    test("a quota is waited for, unless the user decides otherwise or another agent takes over", async () => {
      const limited = { when: { role: "impl", attempt: [1, 2] }, fail: { cause: "rate_limit", untilMs: 3_600_000 } };
      const place = await work.begin();
      const agent = await place.agent([limited, GOOD]);
      expect(await place.run("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 7 });
      expect(await place.run("resume", "1")).toMatchObject({ status: 7 });
      expect(await place.run("approve", "1", "yes")).toMatchObject({ status: 0 });
      expect(await place.run("resume", "1")).toMatchObject({
        status: 7,
        stdout: expect.stringContaining("answers again"),
      });
      await writeFile(join(place.clone, "../other.json"), JSON.stringify({ answers: [GOOD] }));
      const other = await place.run("resume", "1", "--agent", `scripted:${join(place.clone, "../other.json")}`);
      expect(other, other.stdout + other.stderr).toMatchObject({ status: 0 });
    });

    test("a run that died during its creation is started by the next one, under its own id", async () => {
      const place = await work.begin();
      await using holdfast = await openHoldfast({ cwd: place.clone });
      await holdfast.store.createRun({ id: "issue-1", workflow: "impl", work: { kind: "issue", number: 1 } });
      expect(await place.run("resume")).toMatchObject({ status: 3, stderr: expect.stringContaining("holdfast run") });
      expect(await place.run("resume", "1")).toMatchObject({
        status: 3,
        stderr: expect.stringContaining("holdfast run"),
      });
      const begun = await place.run("run", "1", "--no-review", "--agent", await place.agent([GOOD]));
      expect(begun.status, begun.stdout + begun.stderr).toBe(0);
      expect(begun.stdout).toContain("Done issue-1: ");
      expect(await holdfast.listRuns()).toHaveLength(1);
    });

    test("an impossible start is reported with its reason, before anything is created", async () => {
      const place = await work.begin();
      expect(await place.run("run", "7", "--agent", "command:true")).toMatchObject({
        status: 2,
        stderr: expect.stringContaining("There is no issue 7"),
      });
      expect(await place.run("run", "1", "--agent", "claud:x")).toMatchObject({
        status: 2,
        stderr: expect.stringContaining("There is no agent"),
      });
      // The issue of a task is public, so it is filed only for a start that is possible.
      for (const flags of [
        ["--agent", "claud:x"],
        ["--agent", "command:true", "--plan", "none.md"],
      ])
        expect(await place.run("run", "--task", "New", ...flags)).toMatchObject({ status: 2 });
      expect(readdirSync(join(place.remote, "holdfast-forge/issues"))).toEqual(["1.md"]);
      const old = await place.run("run", "1", "--backend", "command:true", "--dry-run");
      expect(old.stderr).toContain("--backend is deprecated: use --impl-model");
      expect(await place.git("branch", "--list")).toBe("* main");
    });
  });

  describe("an unfinished run", () => {
    test("Ctrl+C saves; a second run names the owner; stop stops; nothing is started twice", async () => {
      const place = await work.begin();
      const agent = await place.agent([HANG]);
      const first = place.start("run", "1", "--agent", agent);
      await first.says("half.txt");
      expect(await place.json("status", "issue-1")).toMatchObject({
        run: { status: { kind: "running", holder: { pid: first.child.pid } }, step: "agent" },
      });
      const second = await place.run("run", "1", "--agent", agent);
      expect(second.status).toBe(5);
      expect(second.stderr).toContain(`(pid ${first.child.pid} on `);
      expect(second.stderr).toMatch(/since \d{4}-/);
      expect((await place.run("resume", "issue-1")).status).toBe(5);
      const stopped = await place.run("stop");
      expect(stopped.stdout).toMatch(/^Stopped issue-1\. Saved as issue-1@\d+\.\n$/);
      const ended = await first.ended;
      expect(ended.status).toBe(130);
      expect(ended.stdout).toContain("Continue with: holdfast resume issue-1");
      expect(await place.json("status", "issue-1")).toMatchObject({ run: { status: { kind: "paused" } } });
      const third = await place.run("run", "1", "--agent", agent);
      expect(third).toMatchObject({ status: 4, stderr: expect.stringContaining("holdfast resume issue-1") });
      await place.agent([GOOD]);
      const resumed = await place.run("run", "1", "--resume");
      expect(resumed.status, resumed.stdout + resumed.stderr).not.toBe(1);
      expect(await place.git("branch", "--list", "holdfast/*")).toMatch(/^\+ holdfast\/issue-1$/);
    });

    test("during a long agent call the timer takes checkpoints, with its files", async () => {
      const place = await work.begin();
      const agent = await place.agent([HANG]);
      await writeFile(join(place.clone, "holdfast.config.yaml"), "agents:\n  checkpointEvery: 1s\n  maxIdle: 60d\n");
      const first = place.start("run", "1", "--agent", agent);
      await first.says("half.txt");
      // The first ones may be older than the file.
      let files = "";
      while (!files.includes("half.txt")) {
        const [timed] = (await place.json("list", "issue-1", "--trigger", "timer")).checkpoints;
        if (timed === undefined) continue;
        expect(await place.run("show", timed.id)).toMatchObject({ stdout: expect.stringContaining("timer") });
        files = (await place.run("diff", "issue-1@1", timed.id)).stdout;
      }
      first.child.kill("SIGINT");
      expect(await first.ended).toMatchObject({ status: 130 });
    });

    test("killed, it is crashed; changes meanwhile are shown and asked about", async () => {
      const place = await work.begin();
      const agent = await place.agent([HANG]);
      const first = place.start("run", "1", "--no-review", "--agent", agent);
      await first.says("half.txt");
      first.child.kill("SIGKILL");
      await first.ended;
      const status = await place.run("status");
      expect(status.stdout).toContain("issue-1  crashed");
      expect(status.stderr).toContain("holdfast resume issue-1");
      const forge = openLocalForge({ repository: place.remote });
      await editIssue(forge.location, "What is it?", "What is it, really?");
      const look = await place.run("resume", "issue-1", "--dry-run");
      expect(look.stdout).toContain("+ What is it, really?");
      await place.agent([GOOD]);
      const asked = await place.run("resume", "issue-1", "--agent", "command:exit 0");
      expect(asked.status).toBe(4);
      expect(asked.stdout).toContain("--agent 'command:exit 0' --accept issue_body_changed");
      const done = await place.run("resume", "issue-1", "--accept", "issue_body_changed");
      expect(done.status, done.stdout + done.stderr).toBe(0);
      const pull = await forge.findPullRequest("holdfast/issue-1");
      expect(await place.git("ls-tree", "--name-only", pull?.headCommit ?? "")).toBe("README.md\nanswer.txt");
    });

    test("a budget makes it wait, which is not a question to approve, and a higher one continues it", async () => {
      const place = await work.begin();
      const poor = { ...GOOD, when: { role: "impl", iteration: 1 }, finalize: undefined };
      const agent = await place.agent([poor, GOOD]);
      const waiting = await place.run("run", "1", "--no-review", "--agent", agent, "--max-tokens", "1000");
      expect(waiting.status, waiting.stdout + waiting.stderr).toBe(7);
      expect(waiting.stdout).toContain("Waiting for a higher budget");
      const refused = await place.run("approve", "1", "yes");
      expect(refused).toMatchObject({ status: 3, stderr: expect.stringContaining("The budget is used up") });
      expect(refused.stderr).toContain("resume issue-1 --max-tokens N");
      expect(await place.run("resume", "1")).toMatchObject({ status: 7 });
      const done = await place.run("resume", "1", "--max-tokens", "9000");
      expect(done.status, done.stdout + done.stderr).toBe(0);
      expect(await place.json("status", "1")).toMatchObject({
        run: { budget: { spent: { tokens: 2000 }, limit: { tokens: 9000 } } },
      });
    });

    test("a failed run keeps its reason, and starts again only from a chosen checkpoint", async () => {
      const place = await work.begin();
      const agent = await place.agent([{ when: { role: "impl" }, reply: "I do not know" }]);
      const fatal = await place.run("run", "1", "--no-review", "--agent", agent);
      expect(fatal.status, fatal.stdout + fatal.stderr).toBe(1);
      expect(fatal.stdout).toContain("Failed issue-1: ");
      const reason = (await place.json("status", "1")).run.status.reason;
      expect(await place.run("resume", "1")).toMatchObject({ status: 1, stderr: expect.stringContaining(reason) });
      expect(await place.run("resume", "1", "--force")).toMatchObject({ status: 2 });
      await place.agent([GOOD]);
      const again = await place.run("resume", "issue-1@2", "--force");
      expect(again.status, again.stdout + again.stderr).toBe(0);
    });

    test("a limit that ended it is named with its flag, and run --resume with a higher one continues", async () => {
      const place = await work.begin();
      const agent = await place.agent([{ when: { role: "impl" }, reply: "I do not know" }]);
      const removed = await place.run("run", "1", "--no-review", "--agent", agent, "--max-stuck", "1");
      expect(removed).toMatchObject({ status: 2, stderr: expect.stringContaining("Set impl.limits.stuck in") });
      const start = ["run", "1", "--no-review", "--agent", agent, "--max-iterations", "1"];
      expect(await place.run(...start)).toMatchObject({ status: 1 });
      const hint = "holdfast resume issue-1 --max-iterations N";
      expect(await place.run("resume", "1")).toMatchObject({ status: 1, stderr: expect.stringContaining(hint) });
      await place.agent([GOOD]);
      expect(await place.run("resume", "1", "--max-iterations", "1")).toMatchObject({ status: 2 });
      expect(await place.run("resume", "1", "--max", "9")).toMatchObject({ status: 2 });
      const again = await place.run("run", "1", "--resume", "--max-iterations", "3");
      expect(again.status, again.stdout + again.stderr).toBe(0);
      expect((await place.json("status", "1")).run.status.kind).toBe("done");
    });
  });

  sequentialTest
    .skipIf(!hasScript())
    .concurrent("on a terminal: a live view that leaves the screen clean (needs util-linux script)", async () => {
      const place = await work.begin();
      const agent = await place.agent([GOOD]);
      const command = `"${process.execPath}" "${place.holdfast.entry}" run 1 --no-review --agent ${agent}`;
      const { stdout } = await promisify(execFile)("script", ["-qec", `stty cols 80; ${command}`, "/dev/null"], {
        cwd: place.clone,
        env: { ...process.env, HOME: place.holdfast.directory, NO_COLOR: "1", TERM: "xterm" },
      });
      expect(stdout).toContain("\u001b[?25l");
      expect(stdout.lastIndexOf("\u001b[?25h")).toBeGreaterThan(stdout.lastIndexOf("\u001b[?25l"));
      expect(stdout).toMatch(/issue-1 · impl #1 for \d+ s/);
      expect(stdout).not.toContain("\u001b[1m");
      expect(stdout.slice(stdout.lastIndexOf("\u001b[?25h"))).toMatch(/^\S+Done issue-1: /);
    });

  function hasScript(): boolean {
    return process.platform === "linux" && existsSync("/usr/bin/script");
  }

  const ASKING = `import { defineWorkflow } from "holdfast";
export default defineWorkflow({
  name: "asking",
  initial: "ask",
  stages: {
    ask: async (context) => {
      const answer = await context.decide({ name: "go", question: "Continue?", options: ["yes", "no"] });
      return { event: answer === "yes" ? "yes" : "no", reason: "you said " + answer };
    },
  },
  transitions: { ask: { yes: "done", no: "fatal" } },
  ends: { done: "done", fatal: "failed" },
  initialState: () => ({}),
});
`;

  test("a custom workflow asks a question, and continues with the answer", async () => {
    const place = await work.begin();
    const file = join(place.clone, "asking.ts");
    await writeFile(file, workflowSource(ASKING));
    const waiting = await place.run("run", "--task", "Ask me", "--workflow", "asking.ts");
    expect(waiting.status, waiting.stdout + waiting.stderr).toBe(4);
    expect(waiting.stdout).toContain("Waiting for you");
    const shown = await place.run("approve");
    expect(shown).toMatchObject({ status: 4, stdout: expect.stringContaining("asks: Continue?") });
    const { id: run } = JSON.parse((await place.run("approve", "--json")).stdout).run;
    expect(await place.run("approve", run, "maybe")).toMatchObject({ status: 2 });
    expect(await place.run("resume", run)).toMatchObject({ status: 4 });
    expect(await place.run("approve", run, "yes", "--by", "ann")).toMatchObject({ status: 0 });
    const { entries } = await place.json("events", run, "--limit", "all");
    expect(entries).toContainEqual(
      expect.objectContaining({ kind: "run.continued", body: { decision: "go", answer: "yes", by: "ann" } }),
    );
    expect(await place.run("resume", run)).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("you said yes"),
    });
    expect(await place.run("approve", run)).toMatchObject({ status: 3 });
  });

  async function editIssue(location: string, from: string, to: string): Promise<void> {
    const { readdir, readFile } = await import("node:fs/promises");
    const [name] = await readdir(join(location, "issues"));
    const path = join(location, "issues", name ?? "");
    await writeFile(path, (await readFile(path, "utf8")).replace(from, to));
  }
});

describe("agent flag", () => {
  const suite = workSuite();

  const REVIEW = {
    when: { role: "review" },
    reply: "fine",
    scores: { faithful: 100, style: 100, docs: 100, cornerCases: 100 },
  };

  /** A command agent that writes a marker file of this name next to the clone. */
  function marking(place: WorkPlace, name: string): { readonly agent: string; readonly ran: () => boolean } {
    const marker = join(place.clone, "..", `${name}.marker`);
    return { agent: `command:touch '${marker}'`, ran: () => existsSync(marker) };
  }

  describe("--agent replaces every agent that a file names", () => {
    test("models.impl and models.review of holdfast.config.yaml", async () => {
      const place = await suite.begin();
      const [impl, review] = [marking(place, "impl"), marking(place, "review")];
      await writeFile(
        join(place.clone, "holdfast.config.yaml"),
        `models:\n  impl: ${JSON.stringify(impl.agent)}\n  review: ${JSON.stringify(review.agent)}\n`,
      );
      const done = await place.run("run", "1", "--agent", await place.agent([GOOD, REVIEW]));
      expect(done, done.stderr).toMatchObject({ status: 0 });
      expect([impl.ran(), review.ran()]).toEqual([false, false]);
    });

    test("agents of .holdfast/crunch/agents.yaml", async () => {
      const place = await suite.begin();
      const bad = marking(place, "crunch");
      await mkdir(join(place.clone, ".holdfast/crunch"), { recursive: true });
      const names = Object.keys(defaultCrunchSettings.agents);
      await writeFile(
        join(place.clone, ".holdfast/crunch/agents.yaml"),
        `agents:\n${names.map((name) => `  ${name}: { agent: ${JSON.stringify(bad.agent)} }\n`).join("")}`,
      );
      const agent = await place.agent([{ reply: "I do not know" }]);
      await place.run("run", "1", "--workflow", "crunch", "--target", "ready", "--agent", agent);
      expect(bad.ran()).toBe(false);
    });

    test("on resume too: the models of the start", async () => {
      const place = await suite.begin();
      const first = join(place.clone, "..", "first.json");
      const { finalize: _finalize, ...unfinished } = GOOD;
      await writeFile(first, JSON.stringify({ answers: [unfinished] }));
      const models = ["--agent", "command:false", "--impl-model", `scripted:${first}`];
      const begun = await place.run(
        "run",
        "1",
        "--no-review",
        ...models,
        "--max-tokens",
        "500",
        "--max-iterations",
        "3",
      );
      expect(begun, begun.stdout + begun.stderr).toMatchObject({ status: 7 });
      const agent = await place.agent([GOOD]);
      const done = await place.run("resume", "issue-1", "--agent", agent, "--max-tokens", "none");
      expect(done, done.stdout + done.stderr).toMatchObject({ status: 0 });
    });
  });
});

describe("denials", () => {
  const work = workSuite();

  const MESSAGE = "Claude Code was not allowed to use Bash";
  const denied = (iteration: number) => ({
    when: { role: "impl", iteration },
    edits: [{ do: "write", path: `try-${iteration}.txt`, text: "1\n" }],
    fail: { cause: "permission_denied", message: MESSAGE },
  });

  async function notes(place: WorkPlace): Promise<readonly string[]> {
    const { entries } = await place.json("events", "issue-1", "--limit", "all");
    return entries.flatMap((entry: { readonly kind: string; readonly body: { readonly text?: string } }) =>
      entry.kind === "note" ? [entry.body.text ?? ""] : [],
    );
  }

  test("denied actions are in the output, the journal and the summary, with the flag that allows them", async () => {
    const place = await work.begin();
    const agent = await place.agent([denied(1), GOOD]);
    const done = await place.run("run", "1", "--no-review", "--agent", agent);
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect(done.stdout).toMatch(/^\S+ +Denied: Claude Code was not allowed to use Bash/m);
    expect(done.stdout).toMatch(/^Denied Claude Code was not allowed to use Bash. --yolo allows it.$/m);
    expect(await notes(place)).toContainEqual(expect.stringContaining(`Denied: ${MESSAGE}`));
    expect(await place.json("status", "issue-1")).toMatchObject({ run: { denied: [MESSAGE] } });
  });

  test("the same denial twice is a question, not another iteration; allow answers it for the rest of the run", async () => {
    const place = await work.begin();
    const agent = await place.agent([denied(1), denied(2), denied(3)]);
    const asked = await place.run("run", "1", "--no-review", "--agent", agent);
    expect(asked.status, asked.stdout + asked.stderr).toBe(4);
    expect(asked.stdout).toMatch(/Waiting for you issue-1: The same was denied in two calls/);
    expect(asked.stdout).toContain("or: holdfast approve issue-1 continue\n");
    // A second resume costs nothing: the question is still open.
    expect(await place.run("resume", "issue-1")).toMatchObject({ status: 4 });
    const calls = async () => {
      const { entries } = await place.json("events", "issue-1", "--limit", "all");
      return entries.filter(({ kind }: { readonly kind: string }) => kind === "step.started").length;
    };
    const before = await calls();
    expect(await place.run("approve", "issue-1", "allow")).toMatchObject({ status: 0 });
    await place.agent([{ ...GOOD, when: { role: "impl", yolo: true } }, denied(3)]);
    const done = await place.run("resume", "issue-1");
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect(await calls()).toBeGreaterThan(before);
  });

  test("stop ends the run with the denied actions as the reason", async () => {
    const place = await work.begin();
    const agent = await place.agent([denied(1), denied(2)]);
    expect(await place.run("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 4 });
    expect(await place.run("approve", "issue-1", "stop")).toMatchObject({ status: 0 });
    const ended = await place.run("resume", "issue-1");
    expect(ended.status).toBe(1);
    expect(ended.stdout).toContain(MESSAGE);
  });
});

describe("triggers", () => {
  const work = workSuite();

  /** Something of each kind. The guard counts what comes after it as an iteration. */
  const WORKFLOW = `
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineWorkflow } from "holdfast";
const effect = (purpose, more) => ({
  purpose, kind: "message", target: "the list", payload: null,
  lookUp: async () => ({ kind: "absent" }), act: async () => ({ kind: "done", receipt: null }), ...more,
});
export default defineWorkflow({
  name: "all-triggers",
  initial: "work",
  stages: {
    work: async (context) => {
      const write = (name, text) => writeFileSync(join(context.workspace.root, name), text);
      await context.agent({ name: "try", role: "impl", prompt: "p", model: null, yolo: true });
      await context.step("draft", () => { write("draft.txt", "draft"); return null; }, { changesFiles: true });
      await context.step("plan", () => { write("plan.md", "plan"); return null; }, { changesFiles: true, artifacts: ["plan.md"] });
      write("draft.txt", "edited");
      await context.step("squash", () => null, { risk: "squash of the draft" });
      write("draft.txt", "again");
      await context.effect(effect("send"));
      await context.checkpoint({ trigger: "manual", name: "by hand" });
      return { event: "fine", reason: "all of them" };
    },
  },
  transitions: { work: { fine: "done" } },
  ends: { done: "done" },
  initialState: () => ({}),
  guard: ({ position, result }) => ({ position: { ...position, iteration: position.iteration + 1 }, result }),
});
`;

  test("a run shows each checkpoint with its trigger, and a disabled trigger shows none", async () => {
    const place = await work.begin();
    const source = workflowSource(WORKFLOW);
    await writeFile(join(place.clone, "all.ts"), source);
    const failing = {
      edits: [{ do: "write", path: "half.txt", text: "half" }],
      fail: { cause: "overload", times: 1, afterEdits: true },
    };
    const agent = await place.agent([failing]);
    const config = (switches: object): Promise<void> =>
      writeFile(
        join(place.clone, "holdfast.config.yaml"),
        JSON.stringify({ checkpoints: switches, errors: { retry: { max: 1, delay: "1s" } } }),
      );
    let id = "";
    const triggersOf = async (...args: readonly string[]): Promise<readonly string[]> => {
      const done = await place.run("run", "--task", "t", "--workflow", "all.ts", "--agent", agent, ...args);
      expect(done, done.stdout + done.stderr).toMatchObject({ status: 0 });
      const { runs } = await place.json("list");
      id = runs[0].id;
      const { checkpoints } = await place.json("list", id, "--limit", "all");
      return checkpoints.map(({ trigger }: { readonly trigger: string }) => trigger).toReversed();
    };
    await config({});
    const always = ["stage", "error_recovery", "restore", "agent_complete", "automatic"];
    expect(await triggersOf()).toEqual([
      ...always,
      "artifact_complete",
      "before_risky",
      "before_external",
      "manual",
      "iteration",
    ]);
    const shown = await place.run("list", id, "--limit", "all");
    expect(shown.stdout, shown.stderr).toMatch(/before_risky +work .* squash of the draft/);
    await config({ artifactComplete: false, beforeExternal: false, beforeRisky: false });
    expect(await triggersOf("--again")).toEqual([...always, "automatic", "manual", "iteration"]);
  });
});

describe("unknown usage", () => {
  const work = workSuite();

  test("tokens and money that no agent reports are null in JSON and unknown in text, never 0", async () => {
    const place = await work.begin();
    // A plain command reports no usage.
    const loop = ["--task", "Write", "--workflow", "ralph", "--until", "test -f a.txt", "--no-first-check"];
    const ran = await place.run("run", ...loop, "--agent", "command:date +%N > a.txt");
    expect(ran.status, ran.stdout + ran.stderr).toBe(0);
    const { runs } = await place.json("list");
    const [{ id }] = runs;
    expect(JSON.stringify(runs)).not.toMatch(/"(?:tokens|microUsd)":0/);
    const unknown = { tokens: null, microUsd: null, uncounted: 1, unpriced: 1 };
    expect((await place.json("status", id)).run.budget.spent).toMatchObject(unknown);
    expect((await place.json("show", `${id}@latest`)).checkpoint.planes.position.budget.spent).toMatchObject(unknown);
    expect((await place.json("compare", id, id)).runs[0].spent).toMatchObject(unknown);
    expect((await place.run("list")).stdout).not.toMatch(/\b0 tokens|\$0\.00/);
    // The plan of a rerun names what it would execute, as the plan of a run does.
    const dry = await place.json("rerun", id, "--dry-run");
    expect(dry.plan.uses).toMatchObject({ checks: ["test -f a.txt"], agents: [{ agent: "command:date +%N > a.txt" }] });
    expect((await place.run("rerun", id, "--dry-run")).stdout).toMatch(/Would use[^]*date \+%N > a\.txt/);
    const { stdout, status } = await place.run("--json", "rerun", id);
    const report = JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");
    // The agent answered alike and wrote another file.
    expect([status, report.compared.step, report.compared.files?.b.step]).toEqual([8, null, expect.any(String)]);
    expect(report.spent).toMatchObject({ a: unknown, b: unknown });
    for (const args of [
      ["status", id],
      ["show", `${id}@latest`],
      ["compare", id, report.run],
    ]) {
      const text = (await place.run(...args)).stdout;
      expect(text, args[0]).toContain("unknown");
      expect(text, args[0]).not.toMatch(/\b0 tokens|\$0\.00/);
    }
  });
});
