import { once } from "node:events";
import { cpSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test, vi } from "vitest";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { SEED, sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { canFakeTerminal, typeInTerminal } from "@holdfast/test-support/typed-terminal";
import { openHoldfast } from "../../open.ts";

vi.setConfig({ testTimeout: process.env["HOLDFAST_FULL"] === "1" ? 3_600_000 : 900_000 });
const work = workSuite();
const DIE_AT = new URL("../../../../test-support/src/store-processes/die-at.ts", import.meta.url).href;

test("the pull request and the branch of a done run are undone once, in order, and the run remains done", async () => {
  const place = await doneRun();
  const { run, json, git, clone } = place;
  const list = await json("undo", "1");
  expect(list.effects).toMatchObject([
    { kind: "push", state: "done", can: false, why: expect.stringContaining("is open for holdfast/issue-1") },
    { kind: "pull_request", state: "done", can: true, what: expect.stringMatching(/^Close pull request #2 /) },
  ]);
  const plan = await json("undo", "1", "pull_request", "--dry-run");
  expect(plan).toMatchObject({ dryRun: true, report: null, effect: { can: true } });
  expect(await run("undo", "1", "pull_request")).toMatchObject({
    status: 4,
    stdout: "",
    stderr: expect.stringContaining("--yes"),
  });
  expect(await run("undo", "1", "push", "--yes")).toMatchObject({
    status: 4,
    stderr: expect.stringContaining("Undo the pull request first"),
  });
  expect(await pullState(place)).toBe("open");
  expect(await entriesOf(clone, "effect.undoing")).toEqual([]);

  expect((await json("undo", "1", "pull_request", "--yes")).report).toMatchObject({ adopted: false });
  expect(await pullState(place)).toBe("closed");
  expect((await run("undo", "1", "pull_request", "--yes")).status).toBe(4);
  const pushed = await git("rev-parse", "holdfast/issue-1");
  expect(await remoteTip(place)).toBe(pushed.trim());
  expect((await run("undo", "1", "push", "--yes")).stdout).toContain("push on");
  expect(await remoteTip(place)).toBe("");

  expect((await json("show", "1")).effects.map(({ state }: { state: string }) => state)).toEqual(["undone", "undone"]);
  expect((await run("events", "1")).stdout).toMatch(/effect\.undone .*undone/);
  expect((await run("status", "1")).stdout).toContain("undone");
  expect((await run("verify")).status).toBe(0);
  expect(await run("resume", "1")).toMatchObject({ status: 0 });
  expect(await remoteTip(place)).toBe("");
});

test("a branch that moved and a merged pull request are refused with the reason, and nothing is recorded", async () => {
  const place = await doneRun();
  const { run, git, clone } = place;
  await git("push", "-q", "origin", "main:refs/heads/holdfast/issue-1", "--force");
  expect(await run("undo", "1", "push", "--yes")).toMatchObject({
    status: 4,
    stderr: expect.stringContaining("which the run pushed"),
  });
  await git("push", "-q", "origin", "holdfast/issue-1", "--force");
  await using holdfast = await openHoldfast({ cwd: clone });
  const { forge } = await holdfast.work.adapters();
  const found = await forge?.findPullRequest("holdfast/issue-1");
  await forge?.mergePullRequest(found?.number ?? 0, { head: found?.headCommit ?? "" });
  expect(await run("undo", "1", "pull_request", "--yes")).toMatchObject({
    status: 4,
    stderr: expect.stringContaining("is merged"),
  });
  expect(await entriesOf(clone, "effect.undoing")).toEqual([]);
  // The branch of a merged pull request may go.
  expect((await run("undo", "1", "push", "--yes")).status).toBe(0);
});

test("a comment and a label of a run go, those of users stay, and an unknown kind is refused", async () => {
  const place = await work.begin();
  await using holdfast = await openHoldfast({ cwd: place.clone });
  const { forge } = await holdfast.work.adapters();
  if (forge === null) return expect.unreachable("the remote is a local forge");
  await holdfast.createRun({ id: "own" });
  const key = (kind: string): string => `own/work/${kind}.1`;
  const theirs = await forge.comment(1, { body: "Mine.", key: "other/work/comment.1" });
  const comment = await forge.comment(1, { body: "Done.", key: key("comment") });
  await forge.setLabels(1, ["bug", "state:dev", "x"]);
  const lease = await holdfast.store.takeLease({ run: "own", label: "test" });
  const target = "local #1";
  for (const [kind, payload, receipt] of [
    ["comment", {}, comment],
    ["state_label", { label: "state:dev" }, { labels: ["bug", "state:dev"] }],
    ["label", { label: "x" }, {}],
    ["deploy", {}, null],
  ] as const) {
    const intent = { key: key(kind), kind, target, payload: "0", detail: { payload } };
    const settled = { key: key(kind), outcome: "done", adopted: false, receipt } as const;
    await holdfast.store.commit({
      lease,
      entries: [
        { kind: "effect.intended", body: intent },
        { kind: "effect.settled", body: settled },
      ],
    });
  }
  await holdfast.store.releaseLease(lease);

  // A user removed the label already: that is recorded and nothing is changed.
  await forge.setLabels(1, ["bug", "state:dev"]);
  expect((await place.json("undo", "own", "label", "--yes")).report).toMatchObject({ adopted: true });
  expect((await forge.getIssue(1))?.labels).toEqual(["bug", "state:dev"]);
  expect((await place.json("undo", "own", "state_label", "--yes")).report).toMatchObject({ adopted: false });
  expect((await forge.getIssue(1))?.labels).toEqual(["bug"]);
  expect((await place.json("undo", "own", "comment", "--yes")).report).toMatchObject({ adopted: false });
  expect(await forge.findComment(1, key("comment"))).toBeNull();
  expect(await forge.findComment(1, "other/work/comment.1")).toEqual(theirs);
  expect(await place.run("undo", "own", "deploy", "--yes")).toMatchObject({
    status: 4,
    stderr: expect.stringContaining("no way back"),
  });
  expect((await place.run("undo", "own", "work")).status).toBe(2);
});

test("a run that another process holds is refused", async () => {
  const place = await doneRun();
  await using holdfast = await openHoldfast({ cwd: place.clone });
  await using handle = await holdfast.run("issue-1");
  await handle.hold();
  expect((await place.run("undo", "1", "pull_request", "--yes")).status).toBe(5);
  expect(await pullState(place)).toBe("open");
});

test.skipIf(!canFakeTerminal())("at a terminal it asks, and no changes nothing", async () => {
  const place = await doneRun();
  const command = `${process.execPath} ${place.holdfast.entry} undo 1 pull_request`;
  const typed = async (answer: string) =>
    await typeInTerminal({
      command,
      cwd: place.clone,
      env: { HOME: place.holdfast.directory, HOLDFAST_TRUST: "1" },
      answers: [answer],
      question: /Undo it\?/,
    });
  const no = await typed("n\r");
  expect([no.status, no.output]).toEqual([4, expect.stringContaining("Close pull request #2")]);
  expect(await pullState(place)).toBe("open");
  expect((await typed("y\r")).status).toBe(0);
  expect(await pullState(place)).toBe("closed");
});

test("killed at any step, the same command completes the undo, exactly once", async () => {
  const place = await doneRun();
  const directory = dirname(place.clone);
  const counter = join(place.holdfast.directory, "count");
  const undo = async (kind: string, dieAt: number): Promise<string> => {
    const child = place.holdfast.start(["undo", "1", kind, "--yes"], {
      cwd: place.clone,
      node: ["--no-warnings", "--import", DIE_AT],
      env: { DIE_AT: String(dieAt), COUNTER: counter },
    });
    child.stdout?.resume();
    child.stderr?.resume();
    const [status, signal] = await once(child, "close");
    return status === 0 ? "ended" : String(signal ?? status);
  };
  const deaths: { readonly name: string; readonly kind: string; readonly at: number; readonly from: string }[] = [];
  for (const kind of ["pull_request", "push"]) {
    const from = `${directory}-before-${kind}`;
    cpSync(directory, from, { recursive: true });
    expect(await undo(kind, 0)).toBe("ended");
    const count = Number(readFileSync(counter, "utf8"));
    for (let at = 1; at <= count; at += 1) deaths.push({ name: `${kind} ${at}`, kind, at, from });
  }
  for (const { name, kind, at, from } of sampleBySeed(deaths, 6)) {
    const where = `HOLDFAST_SEED=${SEED}, ${name} of ${deaths.length}`;
    rmSync(directory, { recursive: true, force: true });
    cpSync(from, directory, { recursive: true });
    const earlier = (await entriesOf(place.clone, "effect.undone")).length;
    const end = await undo(kind, at);
    // How many operations there are differs by a few from life to life: one of the last may not come.
    expect(["SIGKILL", "ended"], where).toContain(end);
    if (end === "SIGKILL") {
      const [left] = (await place.json("undo", "1")).effects.filter((one: { kind: string }) => one.kind === kind);
      if (left.state !== "undone") expect([where, await undo(kind, 0)]).toEqual([where, "ended"]);
    }
    expect([where, await pullState(place)]).toEqual([where, "closed"]);
    if (kind === "push") expect([where, await remoteTip(place)]).toEqual([where, ""]);
    const log = readFileSync(join(place.remote, "holdfast-forge/log.jsonl"), "utf8");
    expect([where, log.split("pull_closed").length - 1]).toEqual([where, 1]);
    expect([where, (await entriesOf(place.clone, "effect.undone")).length - earlier]).toEqual([where, 1]);
    await using holdfast = await openHoldfast({ cwd: place.clone, readOnly: true });
    for await (const event of holdfast.verify())
      if (event.kind === "summary") expect([where, event.ok]).toEqual([where, true]);
  }
});

test("a restore with --undo-effects plans and undoes what came after the checkpoint, newest first", async () => {
  const place = await doneRun();
  const { run, json } = place;
  const plan = await json("restore", "issue-1@2", "--undo-effects", "--dry-run");
  expect(plan.effects).toMatchObject([
    { kind: "pull_request", can: true },
    { kind: "push", can: true },
  ]);
  expect((await json("restore", "issue-1@latest", "--undo-effects", "--dry-run")).effects).toEqual([]);
  expect((await run("restore", "issue-1@2", "--undo-effects", "--only", "files")).status).toBe(2);
  expect((await run("restore", "issue-1@2", "--undo-effects")).status).toBe(4);
  expect(await pullState(place)).toBe("open");

  const done = await json("restore", "issue-1@2", "--undo-effects", "--yes");
  expect(done.undone).toEqual(plan.effects.map(({ key }: { key: string }) => ({ key, outcome: "undone", why: null })));
  expect([await pullState(place), await remoteTip(place)]).toEqual(["closed", ""]);

  // The run that continues publishes again, and does not take the closed pull request for its own.
  const again = await run(
    "resume",
    "issue-1@latest",
    "--force",
    "--accept",
    "pull_request_closed",
    "--agent",
    await place.agent([GOOD]),
  );
  expect(again.status, again.stdout + again.stderr).toBe(0);
  expect(await pullState(place)).toBe("open");
  expect(await remoteTip(place)).not.toBe("");
});

async function doneRun(): Promise<WorkPlace> {
  const place = await work.begin();
  const done = await place.run("run", "1", "--no-review", "--agent", await place.agent([GOOD]));
  expect(done.status, done.stdout + done.stderr).toBe(0);
  return place;
}

async function pullState({ clone }: WorkPlace): Promise<string | undefined> {
  await using holdfast = await openHoldfast({ cwd: clone, readOnly: true });
  const { forge } = await holdfast.work.adapters();
  return (await forge?.findPullRequest("holdfast/issue-1"))?.state;
}

async function remoteTip({ git }: WorkPlace): Promise<string> {
  return (await git("ls-remote", "origin", "refs/heads/holdfast/issue-1")).split("\t")[0] ?? "";
}

async function entriesOf(cwd: string, kind: string): Promise<readonly unknown[]> {
  await using holdfast = await openHoldfast({ cwd, readOnly: true });
  const entries = await Array.fromAsync((await holdfast.run("issue-1")).log());
  return entries.filter((entry) => entry.kind === kind);
}
