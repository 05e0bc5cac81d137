import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseCrunchState } from "@holdfast/workflows/crunch/state";
import type { JsonObject } from "@holdfast/core/json";
import { readYaml } from "@holdfast/formats/strict-yaml";
import { openHoldfast } from "../../src/open.ts";
import { withoutPauses } from "../bench/without-pauses.ts";
import { PASS, settings } from "./answers.ts";
import { type Bench, makeBench } from "./bench.ts";

const directoryOf = (bench: Bench): string => join(bench.root, "clone/.claude/crunch/1/checkpoints");

function documentAt(path: string): JsonObject {
  const { value } = readYaml(readFileSync(path, "utf8"), { format: "crunch-yaml", file: path });
  return value as JsonObject;
}

const member = (document: JsonObject, name: string): JsonObject => document[name] as JsonObject;

/** What crunch's own check says about resuming from a document now. */
async function freshnessOf(bench: Bench, document: JsonObject): Promise<readonly string[]> {
  const { labels, body, branch } = member(document, "issue_snapshot");
  const issue = await bench.forge.getIssue(1);
  const branches = await bench.git("clone", "branch", "--list", "--format=%(refname:short)", String(branch));
  return [
    ...(JSON.stringify(issue?.labels) === JSON.stringify(labels) ? [] : ["Issue labels changed since checkpoint"]),
    ...(issue?.body === body ? [] : ["Issue body modified since checkpoint"]),
    ...(branches.trim() === branch ? [] : ["Branch no longer exists"]),
  ];
}

function outputLocations(document: JsonObject): readonly string[] {
  const agents = Object.values(member(document, "agent_outputs")) as readonly Record<string, JsonObject>[];
  return agents.flatMap((actions) => Object.values(actions).map((one) => String(one["output_location"])));
}

test("a run is visible in crunch's own directory while it works, and has its result there", async () => {
  await using bench = await makeBench({ layout: "seed", answers: PASS, options: settings() });
  const directory = directoryOf(bench);
  const seen = new Set<string>();
  const sessions = new Set<unknown>();
  const { outcome } = await bench.holdfast.start({
    workflow: "crunch",
    work: { kind: "issue", number: 1 },
    agent: bench.adopt.agent,
    options: settings(),
    listen: () => {
      // Whenever the run emits an event, a reader finds complete files.
      if (!existsSync(join(directory, "latest"))) return;
      const document = documentAt(join(directory, "latest"));
      expect(readdirSync(directory)).toContain(`${String(document["checkpoint_id"])}.yaml`);
      // A killed run leaves no document that names an output which is not there.
      for (const path of outputLocations(document)) expect(existsSync(join(bench.root, "clone", path))).toBe(true);
      sessions.add(document["session_id"]);
      seen.add(String(member(document, "workflow_state")["current_phase"]));
    },
  });
  expect(outcome).toMatchObject({ kind: "done" });
  expect([...seen]).toEqual(["enrich", "ready", "implementing", "validation", "docs"]);
  const last = documentAt(join(directory, "latest"));
  expect(last).toMatchObject({
    issue_number: 1,
    trigger: "phase_transition",
    workflow_state: { current_phase: "docs", current_state_label: "state:ready-to-merge" },
    issue_snapshot: { branch: "feature/issue-1-add-a-greeting" },
    team_state: { team_id: expect.stringMatching(/^TEAM-/) },
    agent_outputs: { "dev-python": { implement: { output_summary: "build is done." } } },
    acp_state: { pending_messages: [], awaiting_response: [], conflicts_in_progress: [] },
    recovery_info: { can_resume: true, prerequisites_met: true, warnings: [] },
  });
  expect(await freshnessOf(bench, last)).toEqual([]);
  expect(outputLocations(last)).toHaveLength(4);
  expect(readFileSync(join(bench.root, "clone/.claude/crunch/1/outputs/enrich-spec.md"), "utf8")).toBe(
    "spec is done.\n",
  );
  expect([...sessions]).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/)]);
  const index = documentAt(join(directory, "index.yaml"));
  const listed = index["checkpoints"] as readonly JsonObject[];
  expect(index).toMatchObject({ latest: last["checkpoint_id"], total_checkpoints: listed.length });
  const words = listed.map(({ trigger }) => String(trigger));
  expect(words.filter((word) => word === "phase_transition").length).toBeGreaterThanOrEqual(6);
  expect(new Set(words)).toEqual(new Set(["phase_transition", "batch_complete"]));
  // In the user's own worktree, and in no commit.
  expect(await bench.git("clone", "status", "--porcelain")).toBe("");
  expect(await bench.git("remote", "ls-tree", "-r", "--name-only", "feature/issue-1-add-a-greeting")).not.toContain(
    ".claude",
  );
});

test("with the switch on, every agent that delivers is saved, and shown once per phase", async () => {
  await using bench = await makeBench({
    layout: "seed",
    answers: PASS,
    options: { ...settings(), target: "implementing" },
  });
  const { holdfast, run } = bench;
  await mkdir(join(bench.root, "clone/.claude"));
  const config = join(bench.root, "clone/.claude/checkpoint-config.yaml");
  await writeFile(config, "checkpoint: {checkpoint_triggers: {agent_complete: true}}\n");
  expect(await bench.work()).toMatchObject({ kind: "done" });
  const saved = await (await holdfast.run(run)).list({ trigger: "agent_complete" });
  expect(saved.map(({ name }) => name).toReversed()).toEqual(["system-architect: spec", "dev-python: build"]);
  const listed = documentAt(join(directoryOf(bench), "index.yaml"))["checkpoints"] as readonly JsonObject[];
  expect(listed.filter(({ trigger }) => trigger === "agent_complete").map(({ phase }) => phase)).toEqual([
    "enrich",
    "implementing",
  ]);
});

test("a checkpoint of its middle, exported and imported, continues at its phase with all its state", async () => {
  await using bench = await makeBench({
    layout: "seed",
    answers: PASS,
    options: { ...settings(), target: "implementing" },
  });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  const { holdfast, run } = bench;
  const batches = await (await holdfast.run(run)).list({ trigger: "batch_complete" });
  const middle = batches.find(({ stage }) => stage === "implementing");
  if (middle === undefined) return expect.unreachable("no batch of implementing was saved");
  const { encoded } = await holdfast.formats.encode(middle, "crunch-yaml");
  expect(encoded.losses.map(({ path }) => path)).not.toContain("position.graph");
  const file = join(bench.root, "middle.yaml");
  await writeFile(file, encoded.bytes);
  expect(documentAt(file)).toMatchObject({
    execution_graph: { node_states: { build: { status: "complete" } } },
    recovery_info: { can_resume: true },
  });
  const [plan] = await holdfast.formats.planImport({ paths: [file], run: "again" });
  if (plan === undefined) return expect.unreachable();
  await holdfast.formats.applyImport(plan);
  const agent = `scripted:${join(bench.root, "script.json")}`;
  const report = await holdfast.resume({ run: "again", adopt: { agent, options: {} } });
  expect(report.outcome).toMatchObject({ kind: "done" });
  const entries = await Array.fromAsync(holdfast.store.readJournal({ run: "again" }));
  const stages = entries.filter(({ kind }) => kind === "stage.entered").map(({ body }) => body["stage"]);
  expect(stages).toEqual(["implementing", "e2e", "docs", "ready-to-merge", "stopped"]);
  // What was complete was not done again: no agent was called for it.
  const called = (await holdfast.logs.list("again")).map(({ step }) => step);
  expect(called.filter((step) => step.includes("build") || step.includes("spec"))).toEqual([]);
  const before = parseCrunchState((await holdfast.store.getCheckpoint(middle)).planes.context.values);
  const after = parseCrunchState((await holdfast.store.latest("again"))?.planes.context.values ?? {});
  expect(after.team?.id).toBe(before.team?.id);
  const ids = (state: typeof before) => state.messages.records.map(({ message }) => message.id);
  expect(ids(after)).toEqual(expect.arrayContaining([...ids(before)]));
  expect(after.knowledge.captured).toEqual(expect.arrayContaining([...before.knowledge.captured]));
  expect(after.outputs.map(({ node }) => node)).toEqual(["spec", "build", "check", "document"]);
});

test("a phase that is finished is not repeated on another clone", async () => {
  await using bench = await makeBench({
    layout: "seed",
    answers: PASS,
    options: { ...settings(), target: "implementing" },
  });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  await bench.git("worktree", "push", "-q", "origin", "HEAD");
  const clone = join(bench.root, "other");
  await bench.git("clone", "clone", "-q", join(bench.root, "remote.git"), clone);
  const other = await openHoldfast({ cwd: clone, adapters: withoutPauses });
  await using _closing = { [Symbol.asyncDispose]: () => other.close() };
  for (const plan of await other.formats.planImport({ paths: [directoryOf(bench)], run: "moved" }))
    await other.formats.applyImport(plan);
  const { agent } = bench.adopt;
  await expect(
    other.resume({ run: "moved", adopt: { agent, options: { target: "implementing" } } }),
  ).rejects.toMatchObject({
    code: "USAGE",
    message: "Run moved has finished implementing, and its target is implementing",
  });
  const { outcome } = await other.resume({ run: "moved", adopt: { agent, options: {} } });
  expect(outcome).toMatchObject({ kind: "done" });
  const called = (await other.logs.list("moved")).map(({ step }) => step);
  expect(called.filter((step) => step.includes("check") || step.includes("document"))).toHaveLength(2);
  expect(called).toHaveLength(2);
  expect(await bench.git("remote", "ls-tree", "-r", "--name-only", "feature/issue-1-add-a-greeting")).toBe(
    "docs.md\ngreeting.txt\nreadme.md",
  );
});

test("a user moves the issue while no process works: the run follows its label", async () => {
  const hang = { when: { role: "check" }, hang: true };
  await using bench = await makeBench({
    layout: "seed",
    answers: [...PASS.filter((_, at) => at !== 2), hang],
    options: settings(),
  });
  const { holdfast, forge } = bench;
  const controller = new AbortController();
  const started = holdfast.start({
    workflow: "crunch",
    work: { kind: "issue", number: 1 },
    agent: `scripted:${join(bench.root, "script.json")}`,
    options: settings(),
    signal: controller.signal,
    listen: (event) => {
      if (event.kind === "agent" || (event.kind === "step_started" && event.step.includes("check"))) {
        if (event.step.includes("check")) controller.abort();
      }
    },
  });
  expect((await started).outcome).toEqual({ kind: "interrupted" });
  expect(documentAt(join(directoryOf(bench), "latest"))).toMatchObject({
    trigger: "user_interrupt",
    workflow_state: { current_phase: "validation", current_state_label: "state:e2e" },
    recovery_info: { resume_from: "check" },
  });
  // The label that the run itself set is not a finding.
  expect((await holdfast.work.preflight({ run: "issue-1" })).findings).toEqual([]);
  await forge.setLabels(1, ["urgent", "state:docs"]);
  const { plan } = await holdfast.work.preflight({ run: "issue-1" });
  expect(plan).toMatchObject({
    kind: "warn",
    actions: [{ kind: "take_issue" }, { kind: "move_stage", stage: "docs" }],
  });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect((await bench.trail()).slice(-2)).toEqual(["docs:documented", "ready-to-merge:at_target"]);
  expect(await bench.labels()).toEqual(["urgent", "state:ready-to-merge"]);
});

test("a bad checkpoint-config.yaml is refused before the run begins and before it resumes; made bad in between it loses nothing", async () => {
  await using bench = await makeBench({ layout: "seed", answers: PASS, options: { ...settings(), target: "enrich" } });
  const config = join(bench.root, "clone/.claude/checkpoint-config.yaml");
  await mkdir(join(bench.root, "clone/.claude"));
  await writeFile(config, "checkpoint:\n  enabled: maybe\n");
  const refusal = {
    code: "CONFIG_INVALID",
    message: expect.stringMatching(/^\.claude\/checkpoint-config\.yaml:2:12: at \/checkpoint\/enabled /),
  };
  await expect(bench.work()).rejects.toMatchObject(refusal);
  expect(await bench.labels()).toEqual([]);
  expect(await bench.holdfast.store.listRuns()).toEqual([]);
  await writeFile(config, "checkpoint:\n  enabled: true\n");
  const stop = new AbortController();
  const outcome = await bench.work({
    signal: stop.signal,
    listen: (event) => {
      if (event.kind !== "step_started" || !event.step.includes("spec")) return;
      writeFileSync(config, "checkpoint: [\n");
      stop.abort();
    },
  });
  expect(outcome).toMatchObject({ kind: "interrupted" });
  await expect(bench.work()).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  await writeFile(config, "checkpoint:\n  enabled: true\n");
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect(documentAt(join(directoryOf(bench), "latest"))).toMatchObject({ workflow_state: { current_phase: "enrich" } });
});
