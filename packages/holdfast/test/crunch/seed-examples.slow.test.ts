import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { JsonObject } from "@holdfast/core/json";
import { readYaml } from "@holdfast/formats/strict-yaml";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { putFiles } from "../bench/put-files.ts";
import { PASS, settings } from "./answers.ts";
import { makeBench } from "./bench.ts";

const BRANCH = "feature/issue-42-jwt-refresh";
const AT = "2025-01-14T10:00:00Z";

/** The full structure of crunch's documentation, with times in place of its placeholders. */
function fullStructure(phase: string, rest: JsonObject = {}): JsonObject {
  return {
    checkpoint_id: `CP-${phase}-20250114-a3f2`,
    version: "1.0",
    created_at: AT,
    issue_number: 42,
    session_id: "7d1f0a52-3c5e-4b8a-9d57-0a4f6d1c2b3e",
    workflow_state: {
      current_phase: phase,
      current_state_label: `state:${phase}`,
      phase_started_at: AT,
      phase_attempt: 1,
    },
    issue_snapshot: {
      title: "Issue title",
      body: "Full issue body at checkpoint",
      labels: [`state:${phase}`, "type:feature", "domain:security"],
      assignees: [],
      branch: BRANCH,
    },
    team_state: {
      team_id: "TEAM-20250114-a3f2",
      members: [{ agent: "orchestrator", role: "coordinator", status: "active", tasks_completed: 2, tasks_pending: 1 }],
    },
    execution_graph: {
      graph_id: "GRAPH-20250114-a3f2",
      completed_batches: [1, 2],
      current_batch: 3,
      node_states: {},
    },
    agent_outputs: {
      "system-architect": {
        create_spec: {
          completed_at: AT,
          output_summary: "Spec created for JWT refresh token feature",
          output_location: ".claude/crunch/42/spec.md",
        },
      },
    },
    acp_state: {
      pending_messages: ["MSG-ids"],
      awaiting_response: ["MSG-ids"],
      conflicts_in_progress: ["CONF-ids"],
    },
    knowledge_context: { injected_entries: ["KE-ids"], captured_entries: ["KE-ids"], pending_captures: [] },
    files_modified: [{ path: "src/auth/tokens.py", status: "modified", staged: true }],
    recovery_info: { can_resume: true, resume_from: "batch_3_task_1", prerequisites_met: true, warnings: [] },
    ...rest,
  };
}

const PHASES = ["enrich", "ready", "implementing", "validation", "docs"] as const;
/** The states of the documentation's graph example: crunch does not save what a node is. */
const STATES = {
  "task-001": { status: "complete", result: "ok", completed_at: AT },
  "task-002": { status: "complete", result: "ok", completed_at: AT },
  "task-003": { status: "running", started_at: AT },
};

const TABLE = [
  ...PHASES.map((phase) => ({ name: `one file at ${phase}`, phase, documents: () => [fullStructure(phase)] })),
  {
    name: "one file at implementing with the states of its nodes",
    phase: "implementing",
    documents: () => [fullStructure("implementing", { execution_graph: { graph_id: "G", node_states: STATES } })],
  },
  { name: "the directory with two files", phase: "enrich", documents: null },
];

test.each(sampleBySeed(TABLE, 2))(
  "crunch's own example is continued to its end, exported and read again: $name",
  async ({ phase, documents }) => {
    await using bench = await makeBench({ answers: PASS, options: settings() });
    const { holdfast, run } = bench;
    const issue = `---\ntitle: Issue title\nlabels: ["state:${phase}", "type:feature", "domain:security"]\n---\nFull issue body at checkpoint`;
    await putFiles(bench.root, { "remote.git/holdfast-forge/issues/42.md": issue });
    await bench.git("clone", "branch", BRANCH);
    if (documents === null) {
      const paths = [join(import.meta.dirname, "../../../formats/golden-directory/42")];
      for (const plan of await holdfast.formats.planImport({ paths, run })) await holdfast.formats.applyImport(plan);
    } else await bench.imports(...documents());
    const accept = {
      issue_title_changed: "accept",
      issue_body_changed: "accept",
      issue_labels_changed: "accept",
    } as const;
    let outcome = await bench.work({ answers: accept });
    for (let asked = 0; outcome.kind === "waiting" && asked < 2; asked += 1) {
      await bench.answer("as the specification says");
      outcome = await bench.work({ answers: accept });
    }
    expect(outcome).toMatchObject({ kind: "done", reason: expect.stringContaining("is open") });
    const request = await bench.forge.findPullRequest(BRANCH);
    expect(request).toMatchObject({ state: "open", head: BRANCH });
    expect((await bench.forge.getIssue(42))?.labels).toContain("state:ready-to-merge");
    const first = await bench.trail();
    expect(first[0]).toMatch(new RegExp(`^${phase === "validation" ? "e2e" : phase}:`));
    const exported = await holdfast.formats.encodeAll(run, "crunch-yaml");
    const output = join(bench.root, "exported");
    await putFiles(
      output,
      Object.fromEntries(exported.map(({ encoded }, at) => [`${at}.yaml`, new TextDecoder().decode(encoded.bytes)])),
    );
    const paths = exported.map((_, at) => join(output, `${at}.yaml`));
    const [again] = await holdfast.formats.planImport({ paths, run: "again" });
    if (again === undefined) return expect.unreachable("nothing was read again");
    await holdfast.formats.applyImport(again);
    const last = readYaml(await readFile(paths.at(-1) ?? "", "utf8"), { format: "crunch-yaml", file: "last" }).value;
    expect(last).toMatchObject({
      session_id: documents === null ? expect.any(String) : "7d1f0a52-3c5e-4b8a-9d57-0a4f6d1c2b3e",
      workflow_state: { current_phase: "docs", current_state_label: "state:ready-to-merge" },
      acp_state: { pending_messages: [], awaiting_response: [], conflicts_in_progress: [] },
      recovery_info: { can_resume: true },
      ...(documents === null
        ? {}
        : {
            knowledge_context: { injected_entries: ["KE-ids"], captured_entries: expect.arrayContaining(["KE-ids"]) },
          }),
    });
  },
);
