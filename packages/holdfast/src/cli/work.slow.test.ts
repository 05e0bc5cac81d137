import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test as sequentialTest } from "vitest";
import { openHoldfast } from "../app.ts";
import { openLocalForge } from "../forges/local/local-forge.ts";
import { GOOD, workSuite } from "./testing/work-repository.ts";
import { workflowSource } from "../testing/workflow-source.ts";

/** Each in a place of its own, and most of their time is spent waiting for disks. */
const test = sequentialTest.concurrent;

const work = workSuite();

const HANG = { when: { role: "impl" }, edits: [{ do: "write", path: "half.txt", text: "half\n" }], hang: true };

describe("run", () => {
  test("a dry run says what would be done, and does nothing, not even a store", async () => {
    const place = await work.begin();
    const { status, stdout } = await place.run(
      "run",
      "1",
      "--no-review",
      "--max-cost",
      "2",
      "--agent",
      "command:true",
      "--dry-run",
    );
    expect(status).toBe(0);
    for (const text of ["issue-1", "issue #1: Answer", "holdfast/issue-1", "10 iterations, $2.00", "impl_done → pr"])
      expect(stdout).toContain(text);
    expect(existsSync(join(place.clone, ".git/holdfast"))).toBe(false);
    expect(await place.git("branch", "--list")).toBe("* main");
  });

  test("an issue becomes a pull request; what is done stays done", async () => {
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
      condition: { kind: "done" },
      budget: { spent: { tokens: 1000 } },
    });
    const again = await place.run("resume", "issue-1");
    expect(again).toMatchObject({ status: 0 });
    expect(again.stdout).toContain("Done issue-1");
    expect(await place.run("run", "1", "--resume", "--agent", agent)).toMatchObject({ status: 0 });
    expect(await place.run("resume")).toMatchObject({ status: 3 });
    expect((await place.run("logs", "1")).stdout).toContain("── agent (visit 2)");
    expect((await place.run("logs", "1", "--step", "nothing")).stdout).toBe("");
    expect((await place.run("stop", "issue-1")).stdout).toBe("issue-1 is not running (done).\n");
  });

  test("an issue that has its pull request does not get a second one unless somebody says so", async () => {
    const place = await work.begin();
    const agent = await place.agent([GOOD]);
    expect(await place.run("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 0 });
    const again = await place.run("run", "1", "--no-review", "--agent", agent);
    expect(again).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/^Done issue-1: Pull request #\d+ is open/),
    });
    expect(again.stderr).toContain("For a new run, add --again.");
    expect(await place.run("list", "--json")).toMatchObject({ stdout: expect.not.stringContaining("issue-1-2") });
    const anew = await place.run("run", "1", "--no-review", "--agent", agent, "--again");
    expect(anew, anew.stdout + anew.stderr).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("Done issue-1-2"),
    });
  });

  test("a store that is deleted as a whole is missing, not new; an empty directory in its place begins anew", async () => {
    const place = await work.begin();
    const agent = await place.agent([GOOD]);
    expect(await place.run("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 0 });
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
        stderr: expect.stringMatching(/the repository has .*issue-1.*: it is gone, or/),
      });
    expect(await place.run("doctor")).toMatchObject({ status: 1, stdout: expect.stringMatching(/^fail +store /m) });
    expect(existsSync(store)).toBe(false);
    await mkdir(store);
    expect((await place.run("list")).stderr).toContain("No runs yet");
    expect(await place.run("checkpoint")).toMatchObject({ status: 0 });
  });

  test("a remote that is gone is waited for on resume: exit 7, and --wait continues when it is back", async () => {
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
    expect((await place.json("status", "1")).condition).toMatchObject({ kind: "parked", on: "forge" });
    const waiting = place.start("resume", "1", "--wait", "--agent", await place.agent([GOOD]));
    await waiting.says("Waiting for the forge issue-1");
    await rename(`${place.remote}.away`, place.remote);
    const done = await waiting.ended;
    expect(done, done.stdout + done.stderr).toMatchObject({ status: 0 });
  });

  test("a quota is waited for, unless a person says otherwise or another agent takes over", async () => {
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

  test("what a budget waits for is no question, and approve says what it is", async () => {
    const place = await work.begin();
    const agent = await place.agent([{ ...GOOD, finalize: undefined }]);
    expect(await place.run("run", "1", "--max-tokens", "500", "--agent", agent)).toMatchObject({ status: 7 });
    const refused = await place.run("approve", "1", "yes");
    expect(refused).toMatchObject({ status: 3, stderr: expect.stringContaining("The budget is used up") });
    expect(refused.stderr).toContain("resume issue-1 --max-tokens N");
  });

  test("a run that died as it was created is begun by the next one, under its own name", async () => {
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

  test("with --json every line is an object, the last one is the outcome", async () => {
    const place = await work.begin();
    const { stdout, stderr } = await place.run(
      "run",
      "1",
      "--no-review",
      "--agent",
      await place.agent([GOOD]),
      "--json",
    );
    expect(stderr).toBe("");
    const lines = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines[0]).toMatchObject({ run: "issue-1", kind: "started" });
    expect(lines.at(-1)).toMatchObject({
      run: "issue-1",
      outcome: { kind: "done" },
      status: { condition: { kind: "done" } },
    });
  });

  test("what cannot begin says why, before anything is made", async () => {
    const place = await work.begin();
    expect(await place.run("run", "7", "--agent", "command:true")).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("There is no issue 7"),
    });
    expect(await place.run("run", "1")).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("No agent is named"),
    });
    expect(await place.run("run", "1", "--agent", "claud:x")).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("There is no agent"),
    });
    const old = await place.run("run", "1", "--backend", "command:true", "--dry-run");
    expect(old.stderr).toContain("--backend is an old spelling: write --impl-model");
    expect(await place.git("branch", "--list")).toBe("* main");
  });
});

describe("a run under way", () => {
  test("Ctrl+C saves; a second run names who is at it; stop stops; nothing is begun twice", async () => {
    const place = await work.begin();
    const agent = await place.agent([HANG]);
    const first = place.start("run", "1", "--agent", agent);
    await first.says("half.txt");
    expect(await place.json("status", "issue-1")).toMatchObject({
      condition: { kind: "running", lease: { owner: { pid: first.child.pid } } },
      step: "agent",
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
    expect(ended.stdout).toContain("Go on with: holdfast resume issue-1");
    expect(await place.json("status", "issue-1")).toMatchObject({ condition: { kind: "stopped" } });
    const third = await place.run("run", "1", "--agent", agent);
    expect(third).toMatchObject({ status: 4, stderr: expect.stringContaining("holdfast resume issue-1") });
    await place.agent([GOOD]);
    const resumed = await place.run("run", "1", "--resume");
    expect(resumed.status, resumed.stdout + resumed.stderr).not.toBe(1);
    expect(await place.git("branch", "--list", "holdfast/*")).toMatch(/^\+ holdfast\/issue-1$/);
  });

  test("while an agent works for long, checkpoints are made by the clock, with its files", async () => {
    const place = await work.begin();
    const agent = await place.agent([HANG]);
    await writeFile(join(place.clone, "holdfast.config.yaml"), "agents:\n  checkpointEvery: 1s\n  maxIdle: 60d\n");
    const first = place.start("run", "1", "--agent", agent);
    await first.says("half.txt");
    let timed = "";
    while (timed === "") timed = (await place.json("list", "issue-1", "--trigger", "timer")).checkpoints[0]?.id ?? "";
    expect(await place.run("show", timed)).toMatchObject({ stdout: expect.stringContaining("timer") });
    first.child.kill("SIGINT");
    expect(await first.ended).toMatchObject({ status: 130 });
    const restored = await place.run("diff", "issue-1@1", timed);
    expect(restored.stdout).toContain("half.txt");
  });

  test("two at the same moment: one works, the other names it", async () => {
    const place = await work.begin();
    const agent = await place.agent([{ ...GOOD, delayMs: 1500 }]);
    const both = [1, 2].map(() => place.start("run", "1", "--no-review", "--agent", agent));
    const ended = await Promise.all(both.map((one) => one.ended));
    expect(ended.map(({ status }) => status).toSorted()).toEqual([0, 5]);
    const winner = both[ended.findIndex(({ status }) => status === 0)];
    const loser = ended.find(({ status }) => status === 5);
    expect(loser?.stderr).toContain(`pid ${winner?.child.pid} on `);
    expect((await place.json("list")).runs).toHaveLength(1);
  });

  test("a second Ctrl+C leaves at once, and the run can be taken up all the same", async () => {
    const place = await work.begin();
    // Deaf to the first signal, so that there is something to wait for.
    const deaf = { ...HANG, spawn: { ignoreTerm: true } };
    const first = place.start("run", "1", "--no-review", "--agent", await place.agent([deaf]));
    await first.says("half.txt");
    first.child.kill("SIGINT");
    first.child.kill("SIGINT");
    const ended = await first.ended;
    expect(ended.status).toBe(130);
    await place.agent([GOOD]);
    const done = await place.run("resume", "1");
    expect(done.status, done.stdout + done.stderr).toBe(0);
  });

  test("killed, it is called crashed; what changed meanwhile is shown and asked about", async () => {
    const place = await work.begin();
    const agent = await place.agent([HANG]);
    const first = place.start("run", "1", "--no-review", "--agent", agent);
    await first.says("half.txt");
    first.child.kill("SIGKILL");
    await first.ended;
    const status = await place.run("status");
    expect(status.stdout).toContain("issue-1  crashed, resumable");
    expect(status.stderr).toContain("holdfast resume issue-1");
    const forge = openLocalForge({ repository: place.remote });
    await editIssue(forge.location, "What is it?", "What is it, really?");
    const look = await place.run("resume", "issue-1", "--dry-run");
    expect(look.stdout).toContain("+ What is it, really?");
    await place.agent([GOOD]);
    const asked = await place.run("resume", "issue-1");
    expect(asked.status).toBe(4);
    expect(asked.stdout).toContain("--accept issue_body_changed");
    const done = await place.run("resume", "issue-1", "--accept", "issue_body_changed");
    expect(done.status, done.stdout + done.stderr).toBe(0);
    const pull = await forge.findPullRequest("holdfast/issue-1");
    expect(await place.git("ls-tree", "--name-only", pull?.headCommit ?? "")).toBe("README.md\nanswer.txt");
  });

  test("a budget parks it, and a higher one lets it go on", async () => {
    const place = await work.begin();
    const poor = { ...GOOD, when: { role: "impl", iteration: 1 }, finalize: undefined };
    const agent = await place.agent([poor, GOOD]);
    const parked = await place.run("run", "1", "--no-review", "--agent", agent, "--max-tokens", "1000");
    expect(parked.status, parked.stdout + parked.stderr).toBe(7);
    expect(parked.stdout).toContain("Waiting for a higher budget");
    expect(await place.run("resume", "1")).toMatchObject({ status: 7 });
    const done = await place.run("resume", "1", "--max-tokens", "9000");
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect(await place.json("status", "1")).toMatchObject({
      budget: { spent: { tokens: 2000 }, limit: { tokens: 9000 } },
    });
  });

  test("given up, it keeps its reason, and begins again only from a chosen checkpoint", async () => {
    const place = await work.begin();
    const agent = await place.agent([{ when: { role: "impl" }, reply: "I do not know" }]);
    const fatal = await place.run("run", "1", "--no-review", "--agent", agent);
    expect(fatal.status, fatal.stdout + fatal.stderr).toBe(1);
    expect(fatal.stdout).toContain("Given up issue-1: ");
    const reason = (await place.json("status", "1")).condition.reason;
    expect(await place.run("resume", "1")).toMatchObject({ status: 1, stderr: expect.stringContaining(reason) });
    expect(await place.run("resume", "1", "--force")).toMatchObject({ status: 2 });
    await place.agent([GOOD]);
    const again = await place.run("resume", "issue-1@2", "--force");
    expect(again.status, again.stdout + again.stderr).toBe(0);
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
    expect(stdout).toMatch(/issue-1 · impl #1 · \d+ s/);
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
      const answer = await context.decide({ name: "go", question: "Shall it go on?", options: ["yes", "no"] });
      return { event: answer === "yes" ? "yes" : "no", reason: "you said " + answer };
    },
  },
  transitions: { ask: { yes: "done", no: "fatal" } },
  ends: { done: "done", fatal: "fatal" },
  initialState: () => ({}),
});
`;

test("a workflow of one's own asks a question, and goes on with the answer", async () => {
  const place = await work.begin();
  const file = join(place.clone, "asking.ts");
  await writeFile(file, workflowSource(ASKING));
  const parked = await place.run("run", "--task", "Ask me", "--workflow", "asking.ts");
  expect(parked.status, parked.stdout + parked.stderr).toBe(4);
  expect(parked.stdout).toContain("Waiting for you");
  const shown = await place.run("approve");
  expect(shown).toMatchObject({ status: 4, stdout: expect.stringContaining("asks: Shall it go on?") });
  const { run } = JSON.parse((await place.run("approve", "--json")).stdout);
  expect(await place.run("approve", run, "maybe")).toMatchObject({ status: 2 });
  expect(await place.run("resume", run)).toMatchObject({ status: 4 });
  expect(await place.run("approve", run, "yes", "--by", "ann")).toMatchObject({ status: 0 });
  const { entries } = await place.json("log", run, "--limit", "all");
  expect(entries).toContainEqual(
    expect.objectContaining({ kind: "run.unparked", body: { decision: "go", answer: "yes", by: "ann" } }),
  );
  expect(await place.run("resume", run)).toMatchObject({ status: 0, stdout: expect.stringContaining("you said yes") });
  expect(await place.run("approve", run)).toMatchObject({ status: 3 });
});

async function editIssue(location: string, from: string, to: string): Promise<void> {
  const { readdir, readFile } = await import("node:fs/promises");
  const [name] = await readdir(join(location, "issues"));
  const path = join(location, "issues", name ?? "");
  await writeFile(path, (await readFile(path, "utf8")).replace(from, to));
}
