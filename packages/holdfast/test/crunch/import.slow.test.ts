import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { JsonObject } from "@holdfast/core/json";
import { readYaml } from "@holdfast/formats/strict-yaml";
import { putFiles } from "../bench/put-files.ts";
import { PASS, settings } from "./answers.ts";
import { type Bench, makeBench } from "./bench.ts";
import { seedDocument } from "./seed-document.ts";

const READY = { issue: { labels: ["state:ready"] } };

/** The journal and the checkpoints that the store has. Nothing was written while they are the same. */
async function written({ holdfast, run, journal }: Bench): Promise<readonly number[]> {
  const checkpoints = await holdfast.store.listCheckpoints({ run });
  return [checkpoints.length, (await journal()).length];
}

describe("a resume of an import that no workflow has adopted yet", () => {
  test("with a target stops there, and refuses a target that the document is past", async () => {
    await using bench = await makeBench({ answers: PASS, options: settings(), ...READY });
    await bench.imports(seedDocument("ready"));
    const before = await written(bench);
    await expect(bench.work({ limits: { target: "enrich" } })).rejects.toMatchObject({
      code: "USAGE",
      message: "Run issue-1 is at ready already, which is past enrich",
    });
    await expect(bench.work({ limits: { max: 3 } })).rejects.toThrow(/which has no --max/);
    await bench.holdfast.work.changeLimits({ run: bench.run, limits: { target: "implementing" } });
    expect(await written(bench)).toEqual(before);
    expect(await bench.work({ limits: { target: "implementing" } })).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toEqual(["ready:accepted", "implementing:at_target"]);
    expect(await bench.work({ limits: { target: "e2e" } })).toMatchObject({ kind: "done" });
    expect((await bench.trail()).at(-1)).toBe("e2e:at_target");
    await expectIntact(bench);
  });

  test("from a chosen checkpoint adopts that one", async () => {
    await using bench = await makeBench({ answers: PASS, options: settings(), ...READY });
    await bench.imports(
      seedDocument("ready", { id: "20260114-0001" }),
      seedDocument("docs", { id: "20260115-0002", created_at: "2026-01-15T10:00:00Z" }),
    );
    expect(await bench.work({ from: 1, limits: { target: "ready" } })).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toEqual(["ready:at_target"]);
    expect((await bench.holdfast.store.latest(bench.run))?.sequence).toBeGreaterThan(2);
    // The run has ended since: going back to the imported checkpoint adopts it again, under numbers that no effect has.
    expect(await bench.work({ from: 1, force: true })).toMatchObject({ kind: "done" });
    expect((await bench.trail()).slice(0, 3)).toEqual([
      "ready:at_target",
      "ready:accepted",
      "implementing:implemented",
    ]);
    await expectIntact(bench);
  });

  test("after a checkpoint by hand, and of a fork, still adopts it", async () => {
    await using bench = await makeBench({ answers: PASS, options: { ...settings(), target: "ready" }, ...READY });
    await bench.imports(seedDocument("ready"));
    const handle = await bench.holdfast.run(bench.run);
    await handle.fork({ sequence: 1, id: "forked" });
    await handle.save({ name: "by hand" });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toEqual(["ready:at_target"]);
    const adopt = { agent: `scripted:${bench.root}/script.json`, options: { ...settings(), target: "ready" } };
    const { outcome } = await bench.holdfast.resume({ run: "forked", adopt });
    // A fork asks before it publishes anything, here the label of its phase.
    expect(outcome).toMatchObject({ kind: "waiting", for: "you" });
    const planes = (await bench.holdfast.store.latest("forked"))?.planes;
    expect(planes).toMatchObject({ position: { stage: "ready", stageAttempt: { number: 1 } } });
    await expectIntact(bench);
  });

  test("asks if the document says that it cannot be resumed, and continues when forced", async () => {
    await using bench = await makeBench({ answers: PASS, options: { ...settings(), target: "ready" }, ...READY });
    const recovery = { can_resume: false, resume_from: null, prerequisites_met: false, warnings: ["tests are red"] };
    await bench.imports(seedDocument("ready", { recovery_info: recovery }));
    const before = await written(bench);
    const refusal = {
      code: "NEEDS_DECISION",
      message: "Checkpoint CP-ready-20260114-a3f2 says that it cannot be resumed: tests are red",
    };
    await expect(bench.work()).rejects.toMatchObject(refusal);
    await expect(bench.holdfast.work.preflight({ run: bench.run })).rejects.toMatchObject({ code: "USAGE" });
    expect(await written(bench)).toEqual(before);
    expect(await bench.work({ force: true })).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toEqual(["ready:at_target"]);
  });
});

test("ids of a document are kept: messages reach the team, knowledge and conflicts keep their ids", async () => {
  await using bench = await makeBench({
    answers: PASS,
    options: { ...settings(), target: "implementing" },
    issue: { labels: ["state:implementing"] },
  });
  await putFiles(bench.root, {
    "clone/.claude/crunch/1/spec.md": "Greet in Latin.\n",
    "clone/.claude/acp/message-log.yaml": JSON.stringify({
      messages: [{ id: "MSG-1", from: "reviewer", to: "dev-python", summary: "Use the short form." }],
      conflicts: [{ id: "CONF-001", agents: ["reviewer", "dev-python"], topic: "the greeting's form" }],
    }),
  });
  await bench.imports(
    seedDocument("implementing", {
      agent_outputs: {
        "system-architect": {
          work: { completed_at: null, output_summary: "Spec created", output_location: ".claude/crunch/1/spec.md" },
        },
      },
      acp_state: {
        pending_messages: ["MSG-1", "MSG-2"],
        awaiting_response: ["MSG-3"],
        conflicts_in_progress: ["CONF-001"],
      },
      knowledge_context: {
        injected_entries: ["KE-pattern-20250101-aaaa"],
        captured_entries: ["KE-decision-20250102-bbbb"],
        pending_captures: [
          "KE-feedback-20250103-cccc",
          { id: "KE-decision-20250104-dddd", type: "decision", content: "Short wins." },
        ],
      },
    }),
  );
  const newest = async (): Promise<JsonObject> => {
    const { encoded } = await bench.holdfast.formats.encode(
      { run: bench.run, sequence: (await bench.holdfast.store.latest(bench.run))?.sequence ?? 0 },
      "crunch-yaml",
    );
    const file = { format: "crunch-yaml", file: "newest" } as const;
    return readYaml(new TextDecoder().decode(encoded.bytes), file).value as JsonObject;
  };
  expect(await bench.work()).toMatchObject({
    kind: "waiting",
    for: "you",
    reason: expect.stringContaining("the greeting's form"),
  });
  expect(await newest()).toMatchObject({
    acp_state: { pending_messages: [], conflicts_in_progress: ["CONF-001"] },
    knowledge_context: {
      injected_entries: ["KE-pattern-20250101-aaaa"],
      captured_entries: ["KE-decision-20250102-bbbb"],
    },
  });
  await bench.answer("the short form");
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect(await newest()).toMatchObject({
    acp_state: { pending_messages: [], awaiting_response: [], conflicts_in_progress: [] },
    knowledge_context: {
      injected_entries: ["KE-pattern-20250101-aaaa"],
      captured_entries: expect.arrayContaining(["KE-decision-20250102-bbbb", "KE-decision-20250104-dddd"]),
      pending_captures: ["KE-feedback-20250103-cccc"],
    },
    agent_outputs: { "system-architect": { work: { output_location: ".claude/crunch/1/spec.md" } } },
  });
  const { messages, conflicts, refused } = await bench.state();
  expect(refused).toEqual([]);
  expect(conflicts).toMatchObject([{ id: "CONF-001", resolution: { how: "person", choice: "the short form" } }]);
  expect(messages.records.slice(0, 3).map(({ message, status }) => `${message.id} ${status.kind}`)).toEqual([
    "MSG-1 delivered",
    "MSG-2 delivered",
    "MSG-3 withdrawn",
  ]);
  const prompts = messages.records.flatMap(({ message: { type, payload } }) =>
    type === "REQUEST" ? [payload.prompt] : [],
  );
  expect(prompts).toHaveLength(1);
  for (const text of ["reviewer to dev-python: Use the short form.", "MSG-2 was not delivered", "Greet in Latin."])
    expect(prompts[0]).toContain(text);
  expect(prompts[0]).toContain("- the greeting's form: the short form (person)");
  // Enrich was finished elsewhere: no agent works on it again.
  expect(await bench.trail()).toEqual(["implementing:at_target"]);
});

const SPEC = { completed_at: "2026-01-14T09:30:00Z", output_summary: "Spec created", output_location: null };

test.each([
  {
    name: "an output that a document already has is used",
    members: { agent_outputs: { "system-architect": { work: SPEC } } },
    outputs: [{ node: "spec", summary: "Spec created" }],
  },
  {
    name: "a phase whose nodes are all complete is finished",
    members: { execution_graph: { graph_id: "G", node_states: { "task-1": { status: "complete", result: "ok" } } } },
    outputs: [],
  },
])("$name, and no agent works on it again", async ({ members, outputs }) => {
  await using bench = await makeBench({
    answers: PASS,
    options: { ...settings(), target: "ready" },
    issue: { labels: ["state:enrich"] },
  });
  await bench.imports(seedDocument("enrich", members));
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect(await bench.holdfast.logs.list(bench.run)).toEqual([]);
  expect((await bench.state()).outputs).toMatchObject(outputs);
  expect(await bench.trail()).toEqual(["enrich:enriched", "ready:at_target"]);
});

const BRANCH = "feature/issue-1-greeting";

describe("an import continues on the branch that its document names", () => {
  const onBranch = (rest = {}) => seedDocument("implementing", { snapshot: { branch: BRANCH }, ...rest });
  const IMPLEMENTING = { issue: { labels: ["state:implementing"] } };

  /** Pushes a commit of this file to the branch from another clone. */
  async function pushElsewhere(bench: Bench, path: string): Promise<string> {
    const other = join(bench.root, `other-${path}`);
    await bench.git("clone", "clone", "-q", bench.root + "/remote.git", other);
    const git = (...args: readonly string[]) => bench.git("clone", "-C", other, ...args);
    await git("switch", "-q", BRANCH).catch(() => git("switch", "-q", "-c", BRANCH));
    await writeFile(join(other, path), "theirs\n");
    await git("add", ".");
    await git("-c", "user.name=B", "-c", "user.email=b@example.org", "commit", "-qm", path);
    await git("push", "-q", "origin", BRANCH);
    return (await git("rev-parse", "HEAD")).trim();
  }

  async function expectRequestOn(bench: Bench, ...contained: readonly string[]): Promise<void> {
    const request = await bench.forge.findPullRequest(BRANCH);
    expect(request?.head).toBe(BRANCH);
    await bench.git("clone", "fetch", "-q", "origin");
    for (const path of contained) expect(await bench.git("clone", "show", `origin/${BRANCH}:${path}`)).not.toBe("");
    expect(await bench.git("clone", "branch", "--list", "holdfast/*")).toBe("");
  }

  test("that was only pushed", async () => {
    await using bench = await makeBench({ answers: PASS, options: settings(), ...IMPLEMENTING });
    await pushElsewhere(bench, "pushed.txt");
    await bench.imports(onBranch());
    const { notes } = await bench.holdfast.work.preflight({ run: bench.run, adopt: bench.adopt });
    expect(notes).toEqual([expect.stringContaining(`on branch ${BRANCH} as it is on the remote`)]);
    expect(await bench.git("clone", "branch", "--list", BRANCH)).toBe("");
    expect(await bench.work()).toMatchObject({ kind: "done" });
    await expectRequestOn(bench, "pushed.txt", "greeting.txt");
  });

  test("that exists only here, and one that is behind the remote is moved forward", async () => {
    await using bench = await makeBench({ answers: PASS, options: settings(), ...IMPLEMENTING });
    await bench.git("clone", "branch", BRANCH);
    await bench.imports(onBranch());
    await pushElsewhere(bench, "later.txt");
    expect(await bench.work()).toMatchObject({ kind: "done" });
    await expectRequestOn(bench, "later.txt", "greeting.txt");
  });

  test("that the user's checkout has checked out, with its uncommitted files", async () => {
    await using bench = await makeBench({ answers: PASS, options: settings(), ...IMPLEMENTING });
    await bench.git("clone", "switch", "-q", "-c", BRANCH);
    await writeFile(join(bench.root, "clone", "draft.txt"), "not committed\n");
    await bench.imports(onBranch());
    expect(await bench.work()).toMatchObject({ kind: "done" });
    await expectRequestOn(bench, "draft.txt", "greeting.txt");
    expect(await bench.git("clone", "rev-parse", "--abbrev-ref", "HEAD")).toContain(BRANCH);
  });

  test("after a kill that left its worktree", async () => {
    const options = { ...settings(), target: "implementing" };
    await using bench = await makeBench({ answers: PASS, options, ...IMPLEMENTING });
    const tip = await pushElsewhere(bench, "pushed.txt");
    await bench.imports(onBranch());
    await bench.git("clone", "fetch", "-q");
    await bench.holdfast.workspaces?.create({ run: bench.run, branch: BRANCH, base: tip });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.git("worktree", "rev-parse", "--abbrev-ref", "HEAD")).toBe(BRANCH);
    expect(await bench.read("pushed.txt")).toBe("theirs\n");
  });

  test("and asks about one that has diverged; one that is missing needs an answer", async () => {
    await using bench = await makeBench({ answers: PASS, options: settings(), ...IMPLEMENTING });
    await bench.imports(onBranch());
    const before = await written(bench);
    await expect(bench.work()).rejects.toMatchObject({
      code: "NEEDS_DECISION",
      message: `The branch ${BRANCH} of the imported document is neither here nor on origin`,
    });
    expect(await written(bench)).toEqual(before);
    await bench.git("clone", "switch", "-q", "-c", BRANCH);
    await writeFile(join(bench.root, "clone", "mine.txt"), "mine\n");
    await bench.git("clone", "add", ".");
    await bench.git("clone", "commit", "-qm", "mine");
    await bench.git("clone", "switch", "-q", "main");
    await pushElsewhere(bench, "theirs.txt");
    expect(await bench.work()).toMatchObject({ kind: "waiting", for: "you" });
    await bench.answer("theirs");
    expect(await bench.work()).toMatchObject({ kind: "done" });
    await expectRequestOn(bench, "theirs.txt", "mine.txt", "greeting.txt");
  });

  test("unless that is missing and the user accepts it", async () => {
    await using bench = await makeBench({
      answers: PASS,
      options: { ...settings(), target: "implementing" },
      ...IMPLEMENTING,
    });
    await bench.imports(onBranch());
    expect(await bench.work({ answers: { branch_missing: "accept" } })).toMatchObject({ kind: "done" });
    expect(await bench.git("worktree", "rev-parse", "--abbrev-ref", "HEAD")).toContain(BRANCH);
  });

  test.each(["main", "--upload-pack=x"])("but not on %j, which is not a name of its own branch", async (branch) => {
    const options = { ...settings(), target: "ready" };
    await using bench = await makeBench({ answers: [], options, ...READY });
    await bench.imports(seedDocument("ready", { snapshot: { branch } }));
    expect(await bench.work()).toMatchObject({ kind: "done" });
    const refs = (await bench.git("clone", "for-each-ref", "--format=%(refname)", "refs/heads")).trim().split("\n");
    expect(refs).toEqual(["refs/heads/feature/issue-1-add-a-greeting", "refs/heads/main"]);
  });
});

async function expectIntact({ holdfast }: Bench): Promise<void> {
  const events = await Array.fromAsync(holdfast.store.verify({}));
  expect(events.filter(({ kind }) => kind === "problem")).toEqual([]);
}
