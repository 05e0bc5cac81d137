import { once } from "node:events";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Json, JsonObject } from "@holdfast/core/json";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { createGithubScene, createGitlabScene } from "@holdfast/test-support/forges/forge-scenes";
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

  expect((await json("status", "1")).run.pullRequest).toMatchObject({ number: 2, undone: false });
  expect((await json("undo", "1", "pull_request", "--yes")).report).toMatchObject({ adopted: false });
  expect(await pullState(place)).toBe("closed");
  expect((await run("undo", "1", "pull_request", "--yes")).status).toBe(4);
  const pushed = await git("rev-parse", "holdfast/issue-1");
  expect(await remoteTip(place)).toBe(pushed.trim());
  expect((await run("undo", "1", "push", "--yes")).stdout).toContain("push on");
  expect(await remoteTip(place)).toBe("");

  expect((await json("show", "1")).effects.map(({ state }: { state: string }) => state)).toEqual(["undone", "undone"]);
  expect((await run("events", "1")).stdout).toMatch(/effect\.undone .*undone/);
  expect((await run("status", "1")).stdout).toMatch(/pull request +undone, and closed: /);
  expect((await json("status", "1")).run.pullRequest).toMatchObject({ number: 2, undone: true });
  expect((await run("verify")).status).toBe(0);
  const undone = /Pull request #2 was undone:/;
  expect(await run("resume", "1")).toMatchObject({ status: 0, stdout: expect.stringMatching(undone) });
  expect(await remoteTip(place)).toBe("");
  // A fork holds the pull request that its parent has undone.
  expect((await run("fork", "issue-1", "--as", "other", "--no-worktree")).status).toBe(0);
  expect((await json("status", "other")).run.pullRequest).toMatchObject({ number: 2, undone: true });
  // It never pushed a branch of its own, and the user knows why the pull request is closed.
  const { findings } = await json("resume", "other", "--dry-run");
  const summaries: readonly string[] = findings.map(({ summary }: { summary: string }) => summary);
  expect(summaries.filter((text) => /remote|request/.test(text))).toEqual(["Pull request 2 is closed: you undid it"]);
  // It gets a branch and a worktree of its own, although those of its parent are there.
  expect(summaries).toEqual(expect.arrayContaining(["The run has no branch yet", "The run has no worktree yet"]));
  const resumed = await run("resume", "other", "--accept", "pull_request_closed");
  expect([resumed.status, resumed.stdout], resumed.stderr).toEqual([0, expect.stringMatching(undone)]);
  const branches = (await git("worktree", "list", "--porcelain")).match(/(?<=^branch refs\/heads\/holdfast\/).*/gm);
  expect(branches).toEqual(["issue-1", "other"]);
  expect(await git("rev-parse", "holdfast/issue-1")).toBe(pushed);
  // A fork with a worktree begins in the end stage of its parent, and does not report that the request is open.
  expect((await run("fork", "issue-1", "--as", "second")).status).toBe(0);
  const { status, stdout, stderr } = await run("resume", "second", "--accept", "pull_request_closed");
  expect([status, stdout], stderr).toEqual([0, expect.stringMatching(undone)]);
  expect((await json("compare", "issue-1", "other")).runs).toMatchObject([
    { pullRequest: null },
    { pullRequest: null },
  ]);
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

test("a comment and a label of a run are removed, those of users stay, and an unknown kind is refused", async () => {
  const place = await work.begin();
  await using holdfast = await openHoldfast({ cwd: place.clone });
  const { forge } = await holdfast.work.adapters();
  if (forge === null) return expect.unreachable("the remote is a local forge");
  await holdfast.createRun({ id: "own" });
  const key = (kind: string): string => `own/own/${kind}.1`;
  const theirs = await forge.comment(1, { body: "Mine.", key: "other/own/comment.1" });
  const comment = await forge.comment(1, { body: "Done.", key: key("comment") });
  await forge.setLabels(1, ["bug", "state:dev", "x"]);
  await recordDone(holdfast, "own", "local #1", [
    ["comment", {}, comment],
    ["state_label", { label: "state:dev" }, { labels: ["bug", "state:dev"] }],
    ["label", { label: "x" }, {}],
    ["deploy", {}, null],
  ]);

  // A user removed the label already: that is recorded and nothing is changed.
  await forge.setLabels(1, ["bug", "state:dev"]);
  expect((await place.json("undo", "own", "label", "--yes")).report).toMatchObject({ adopted: true });
  expect((await forge.getIssue(1))?.labels).toEqual(["bug", "state:dev"]);
  expect((await place.json("undo", "own", "state_label", "--yes")).report).toMatchObject({ adopted: false });
  expect((await forge.getIssue(1))?.labels).toEqual(["bug"]);
  expect((await place.json("undo", "own", "comment", "--yes")).report).toMatchObject({ adopted: false });
  expect(await forge.findComment(1, key("comment"))).toBeNull();
  expect(await forge.findComment(1, "other/own/comment.1")).toEqual(theirs);
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
    // A killed writer may have left the line of its change. The next one adds it to the log.
    await nextWrite(place);
    const log = readFileSync(join(place.remote, "holdfast-forge/log.jsonl"), "utf8");
    expect([where, log.split("pull_closed").length - 1]).toEqual([where, 1]);
    expect([where, (await entriesOf(place.clone, "effect.undone")).length - earlier]).toEqual([where, 1]);
    await using holdfast = await openHoldfast({ cwd: place.clone, readOnly: true });
    for await (const event of holdfast.verify())
      if (event.kind === "summary") expect([where, event.ok]).toEqual([where, true]);
  }
});

test("a restore with --undo-effects plans and undoes the effects after the checkpoint, newest first", async () => {
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

/** The loopback servers. `writes`: the request that undoes each kind of effect. */
const SERVERS = [
  {
    name: "GitHub",
    open: async () => {
      const scene = await createGithubScene(null);
      const merge = (isMerged: boolean): void => {
        const [pull] = scene.repository.pulls;
        if (pull === undefined) throw new Error("no pull request");
        [pull.state, pull.mergeCommit] = isMerged ? ["closed", pull.headCommit] : ["open", null];
      };
      return { scene, merge };
    },
    target: "github",
    number: 2,
    writes: {
      pull_request: /^PATCH .*\/pulls\/2$/,
      push: /^POST .*\/git-receive-pack$/,
      label: /^PUT .*\/issues\/1\/labels$/,
      comment: /^DELETE .*\/issues\/comments\/\d+$/,
    },
  },
  {
    name: "GitLab",
    open: async () => {
      const scene = await createGitlabScene(null);
      const merge = (isMerged: boolean): void => {
        const [request] = scene.project.requests;
        if (request === undefined) throw new Error("no merge request");
        request.state = isMerged ? "merged" : "opened";
      };
      return { scene, merge };
    },
    target: "gitlab",
    number: 1,
    writes: {
      pull_request: /^PUT .*\/merge_requests\/1$/,
      push: /^POST .*\/git-receive-pack$/,
      label: /^PUT .*\/issues\/1$/,
      comment: /^DELETE .*\/issues\/1\/notes\/\d+$/,
    },
  },
] as const;

test.for(SERVERS)(
  "at $name each kind is refused or undone with a receipt, and a killed undo has one request that acts",
  async ({ name, open, target, number, writes }) => {
    const { scene, merge } = await open();
    onTestFinished(() => scene.dispose());
    const { server, remote } = scene;
    const pushes = join(remote.folder, "pushes");
    writeFileSync(join(remote.bare.root, "hooks/post-receive"), `#!/bin/sh\ncat >> ${pushes}\n`, { mode: 0o755 });
    const clone = scene.clone();
    const holdfast = work.command();
    const script = join(remote.folder, "agent.json");
    writeFileSync(script, JSON.stringify({ answers: [GOOD] }));
    const forge = scene.forge();
    await forge.createIssue({ title: "Answer", body: "What is it?\n", labels: ["bug"], key: "test" });
    const done = await holdfast.run(["run", "1", "--no-review", "--agent", `scripted:${script}`], clone);
    expect(done.status, done.stdout + done.stderr).toBe(0);
    const comment = await forge.comment(1, { body: "Done.", key: "issue-1/own/comment.1" });
    await forge.comment(1, { body: "Mine.", key: "other/own/comment.1" });
    await forge.setLabels(1, ["bug", "x"]);
    {
      await using opened = await openHoldfast({ cwd: clone.cwd });
      await recordDone(opened, "issue-1", `${target} #1`, [
        ["comment", {}, comment],
        ["label", { label: "x" }, {}],
      ]);
    }

    const refused = async (kind: string, why: string): Promise<void> =>
      expect(await holdfast.run(["undo", "1", kind, "--yes"], clone)).toMatchObject({
        status: 4,
        stderr: expect.stringContaining(why),
      });
    const pushed = (await scene.tip("holdfast/issue-1")) ?? "";
    await refused("push", "Undo the pull request first");
    await scene.push({ branch: "holdfast/issue-1", files: { "theirs.txt": "1\n" } });
    await refused("push", "which the run pushed");
    remote.bare.git("update-ref", "refs/heads/holdfast/issue-1", pushed);
    merge(true);
    await refused("pull_request", `pull request #${number} is merged`);
    merge(false);
    expect(await entriesOf(clone.cwd, "effect.undoing")).toEqual([]);

    const kinds = ["pull_request", "push", "label", "comment"] as const;
    const moments = kinds.flatMap((kind) =>
      (["before", "after"] as const).map((when) => ({ name: `${kind} ${when}`, kind, when })),
    );
    const deaths = new Set(sampleBySeed(moments, 1, name));
    for (const kind of kinds) {
      const [asked, received] = [server.asked.length, linesOf(pushes).length];
      const killed = moments.filter((moment) => moment.kind === kind && deaths.has(moment));
      for (const { when } of killed) {
        server.faults.set({ match: writes[kind], times: 1, when, effect: { kind: "hang" } });
        const child = holdfast.start(["undo", "1", kind, "--yes"], clone);
        const ended = once(child, "exit");
        await vi.waitFor(() => expect(server.faults.left).toBe(0), { timeout: 600_000, interval: 20 });
        // The answer of a push that the server made is held back; its hook runs before that.
        if (kind === "push" && when === "after")
          await vi.waitFor(() => expect(linesOf(pushes)).toHaveLength(received + 1), {
            timeout: 600_000,
            interval: 20,
          });
        child.kill("SIGKILL");
        await ended;
      }
      const where = `HOLDFAST_SEED=${SEED}, ${name}: ${killed.map((moment) => moment.name).join(", ") || kind}`;
      const again = await holdfast.run(["--json", "undo", "1", kind, "--yes"], clone);
      expect(again.status, `${where}\n${again.stdout}${again.stderr}`).toBe(0);
      const isActed = killed.some(({ when }) => when === "after");
      expect([where, JSON.parse(again.stdout).report]).toMatchObject([where, { adopted: isActed, receipt: {} }]);
      const acts =
        kind === "push"
          ? linesOf(pushes).slice(received)
          : server.asked.slice(asked).filter((line) => writes[kind].test(line));
      expect([where, acts]).toEqual([where, [expect.anything()]]);
    }

    expect((await forge.getPullRequest(number))?.state).toBe("closed");
    expect(await scene.tip("holdfast/issue-1")).toBeNull();
    expect((await forge.getIssue(1))?.labels).toEqual(["bug"]);
    expect(await forge.findComment(1, "issue-1/own/comment.1")).toBeNull();
    expect(await forge.findComment(1, "other/own/comment.1")).not.toBeNull();
    expect(await entriesOf(clone.cwd, "effect.undone")).toMatchObject([
      { body: { outcome: "undone", receipt: { kind: "close_pull_request", forge: target, number } } },
      { body: { outcome: "undone", receipt: { kind: "undo_push", from: pushed, to: null } } },
      { body: { outcome: "undone", receipt: { kind: "remove_label", forge: target, on: 1, label: "x" } } },
      { body: { outcome: "undone", receipt: { kind: "delete_comment", forge: target, on: 1, url: comment.url } } },
    ]);
    expect((await holdfast.run(["verify"], clone)).status).toBe(0);
  },
);

function linesOf(path: string): readonly string[] {
  return readFileSync(path, "utf8").trim().split("\n");
}

/** Records effects as a workflow does whose acts the test has made itself. */
async function recordDone(
  { store }: Awaited<ReturnType<typeof openHoldfast>>,
  run: string,
  target: string,
  effects: readonly (readonly [kind: string, payload: JsonObject, receipt: Json])[],
): Promise<void> {
  const lease = await store.takeLease({ run, label: "test" });
  for (const [kind, payload, receipt] of effects) {
    const key = `${run}/own/${kind}.1`;
    const intent = { key, kind, target, payload: "0", detail: { payload } };
    await store.commit({
      lease,
      entries: [
        { kind: "effect.intended", body: intent },
        { kind: "effect.settled", body: { key, outcome: "done", adopted: false, receipt } },
      ],
    });
  }
  await store.releaseLease(lease);
}

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

async function nextWrite({ clone }: WorkPlace): Promise<void> {
  await using holdfast = await openHoldfast({ cwd: clone, readOnly: true });
  const { forge } = await holdfast.work.adapters();
  await forge?.setLabels(1, []);
}

async function remoteTip({ git }: WorkPlace): Promise<string> {
  return (await git("ls-remote", "origin", "refs/heads/holdfast/issue-1")).split("\t")[0] ?? "";
}

async function entriesOf(cwd: string, kind: string): Promise<readonly unknown[]> {
  await using holdfast = await openHoldfast({ cwd, readOnly: true });
  const entries = await Array.fromAsync((await holdfast.run("issue-1")).log());
  return entries.filter((entry) => entry.kind === kind);
}
