import { describe, expect, test } from "vitest";
import { type Planes, emptyPlanes } from "@holdfast/core/checkpoint";
import type { Graph } from "@holdfast/core/graph";
import { type GraphEvent, stepGraph } from "@holdfast/core/graph-state";
import type { JsonObject } from "@holdfast/core/json";
import { decodeCrunch, encodeCrunch } from "@holdfast/formats/crunch-yaml";
import type { ExternalCheckpoint } from "@holdfast/formats/format";
import { readYaml } from "@holdfast/formats/strict-yaml";
import { describeCrunchRun, outputFiles } from "./document-members.ts";
import type { Conflict, Message } from "./messages.ts";
import { type CrunchEvent, type CrunchState, initialCrunchState, parseCrunchState, reduceCrunch } from "./state.ts";

const AT = "2026-01-14T10:00:00.000Z";
const RUN = { id: "issue-42", createdAt: AT };

function request(id: string): Message {
  return {
    id,
    type: "REQUEST",
    from: "orchestrator",
    to: "system-architect",
    correlation: null,
    timestamp: AT,
    priority: "NORMAL",
    metadata: { issue: 42, phase: "implementing", attempt: 1, checkpoint: null },
    payload: {
      action: "create_spec",
      node: "spec",
      prompt: "Write it.",
      context: {},
      constraints: { timeoutMs: null, requiredOutputs: [], forbiddenActions: [] },
    },
  };
}

const conflict: Conflict = {
  id: "CONF-1",
  topic: "storage",
  phase: "implementing",
  detectedAt: AT,
  domains: [],
  participants: ["a", "b"],
  choices: ["x", "y"],
  recommendations: [],
  rounds: [],
  escalation: null,
  resolution: null,
};

const EVENTS: readonly CrunchEvent[] = [
  { kind: "branch_made", branch: "feature/issue-42-jwt", base: { branch: "main", commit: "c0" } },
  { kind: "phase_entered", phase: "implementing", at: AT },
  {
    kind: "team_composed",
    team: {
      id: "TEAM-20260114-a3f2",
      issue: 42,
      complexity: {
        score: 5,
        level: "HIGH",
        factors: {
          multiDomain: true,
          fileCount: false,
          securityInvolved: true,
          breakingChange: false,
          priorFailures: false,
        },
      },
      domains: ["security"],
      members: [{ agent: "system-architect", role: "supervisor", phases: ["implementing"], routingScore: 80 }],
      tasks: {},
    },
  },
  { kind: "task_moved", task: "spec", agent: "system-architect", phase: "implementing", status: "completed" },
  { kind: "task_moved", task: "code", agent: "system-architect", phase: "implementing", status: "active" },
  {
    kind: "output_delivered",
    output: {
      agent: "system-architect",
      action: "create_spec",
      node: "spec",
      phase: "implementing",
      completedAt: AT,
      summary: "Spec created",
      location: ".claude/crunch/42/spec.md",
    },
  },
  ...(["implementing", "e2e", "docs"] as const).map((phase): CrunchEvent => ({
    kind: "output_delivered",
    output: {
      agent: "orchestrator",
      action: "merge_findings",
      node: "report",
      phase,
      completedAt: AT,
      summary: `Report of ${phase}`,
      location: null,
    },
  })),
  { kind: "message_sent", message: request("MSG-1") },
  { kind: "message_sent", message: request("MSG-2") },
  { kind: "message_delivered", id: "MSG-2" },
  { kind: "conflict_detected", conflict },
  {
    kind: "capture_planned",
    capture: {
      name: "n",
      type: "decision",
      content: "JWT",
      tags: ["auth"],
      source: { type: "issue", ref: "42", phase: "implementing" },
      issue: 42,
    },
  },
];
const state = EVENTS.reduce(reduceCrunch, initialCrunchState);

const node = (id: string, dependencies: readonly string[] = []): Graph["nodes"][number] => ({
  id,
  agent: "system-architect",
  action: "implement",
  dependencies,
  priority: "normal",
  timeoutMs: 300_000,
  retries: 2,
  idempotent: true,
  outputs: [],
});
const moves: readonly GraphEvent[] = [
  { kind: "start", node: "spec", at: AT },
  { kind: "complete", node: "spec", at: AT, result: "done" },
  { kind: "start", node: "code", at: AT },
];
const graph = moves.reduce<Graph>(stepGraph, {
  id: "GRAPH-1",
  nodes: [node("spec"), node("code", ["spec"]), node("test", ["code"])],
  edges: [{ from: "code", to: "test", type: "approval", by: "reviewer", approvedAt: null }],
  states: {},
  meta: {},
});

function checkpoint(change: Partial<Planes["position"]> = {}, values: CrunchState = state): ExternalCheckpoint {
  const planes = emptyPlanes({ workflow: "crunch", stage: "implementing" });
  const stageAttempt = { number: 3, steps: { a: 1 }, failures: {}, graph: true };
  return {
    id: null,
    createdAt: AT,
    trigger: "batch_complete",
    workflow: "crunch",
    work: { kind: "issue", number: 42 },
    planes: {
      ...planes,
      position: { ...planes.position, attempts: { e2e: 1 }, graph, stageAttempt, ...change },
      // A state is JSON.
      context: { values: values as object as JsonObject, tokens: {} },
    },
    original: null,
  };
}

function written(one: ExternalCheckpoint): { readonly document: JsonObject; readonly back: ExternalCheckpoint } {
  const { bytes, path } = encodeCrunch(describeCrunchRun(one, RUN));
  const source = { format: "crunch-yaml", file: path } as const;
  const { value } = readYaml(new TextDecoder().decode(bytes), source);
  const [back] = decodeCrunch({ path, bytes, compression: "none" }).checkpoints;
  if (back === undefined) throw new Error("nothing came back");
  return { document: value as JsonObject, back };
}

describe("a crunch run that Holdfast executes, in crunch's own members", () => {
  const { document } = written(checkpoint());

  test("its position", () => {
    expect(document["workflow_state"]).toEqual({
      current_phase: "implementing",
      current_state_label: "state:implementing",
      phase_started_at: AT,
      phase_attempt: 1,
    });
    expect(document["trigger"]).toBe("batch_complete");
    expect(document["issue_snapshot"]).toMatchObject({ branch: "feature/issue-42-jwt" });
  });

  test("team with counts, outputs with paths, messages and conflicts by id, knowledge", () => {
    expect(document["team_state"]).toMatchObject({
      team_id: "TEAM-20260114-a3f2",
      members: [
        { agent: "system-architect", role: "supervisor", status: "active", tasks_completed: 1, tasks_pending: 2 },
      ],
    });
    expect(document["agent_outputs"]).toMatchObject({
      "system-architect": {
        create_spec: { output_summary: "Spec created", output_location: ".claude/crunch/42/spec.md" },
      },
      orchestrator: {
        merge_findings: { output_summary: "Report of implementing" },
        "merge_findings (report)": { output_summary: "Report of e2e" },
        "merge_findings (docs/report)": { output_summary: "Report of docs" },
      },
    });
    expect(document["acp_state"]).toEqual({
      pending_messages: ["MSG-1"],
      awaiting_response: ["MSG-2"],
      conflicts_in_progress: ["CONF-1"],
    });
    expect(document["knowledge_context"]).toEqual({
      injected_entries: [],
      captured_entries: [],
      pending_captures: [{ name: "n", type: "decision", content: "JWT", tags: ["auth"] }],
    });
  });

  test("defect 10: the graph's definition is stored with the states of its nodes, and a node that ran is still there", () => {
    expect(document["execution_graph"]).toMatchObject({
      graph_id: "GRAPH-1",
      completed_batches: [1],
      current_batch: 2,
      node_states: { spec: { status: "complete" }, code: { status: "running", started_at: AT } },
      nodes: [{ id: "spec" }, { id: "code", dependencies: ["spec"] }, { id: "test" }],
      edges: [{ from: "code", to: "test", type: "approval", approval_required_from: "reviewer" }],
    });
  });

  test("defect 13: resume_from is the id of a node, and names the one that had started", () => {
    expect(document["recovery_info"]).toMatchObject({ can_resume: true, resume_from: "code" });
    const done = stepGraph(graph, { kind: "complete", node: "code", at: AT, result: 1 });
    const approved = stepGraph(done, { kind: "approve", from: "code", to: "test", at: AT });
    expect(written(checkpoint({ graph: approved })).document["recovery_info"]).toMatchObject({ resume_from: "test" });
  });

  test("a failed run is marked as failed; at its target it can continue", () => {
    const fatal = written(checkpoint({ stage: "fatal", reason: "Too many failures" })).document;
    expect(fatal["workflow_state"]).toMatchObject({ current_phase: "implementing" });
    expect(fatal["recovery_info"]).toMatchObject({
      can_resume: false,
      warnings: [
        "Too many failures",
        "The issue, its branch or the base is not known",
        "Conflict CONF-1 is not resolved",
      ],
    });
    expect(written(checkpoint({ stage: "stopped" })).document["recovery_info"]).toMatchObject({
      can_resume: true,
      resume_from: "e2e",
    });
  });

  test("every document of the run has the same session, and the labels that the phase sets at the forge", () => {
    const issue = {
      number: 42,
      title: "JWT",
      body: "Refresh.",
      labels: ["type:feature", "state:ready"],
      assignees: ["ada"],
      state: "open",
      updatedAt: AT,
    } as const;
    const one = checkpoint();
    const known = { ...one, planes: { ...one.planes, inputs: { ...one.planes.inputs, issue } } };
    const first = written(known);
    expect(first.document).toMatchObject({
      session_id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/),
      issue_snapshot: {
        title: "JWT",
        labels: ["type:feature", "state:implementing"],
        assignees: ["ada"],
        branch: "feature/issue-42-jwt",
      },
    });
    // Continued elsewhere as another run, it is still that session.
    const moved = describeCrunchRun(first.back, { id: "moved", createdAt: "2027-01-01T00:00:00.000Z" });
    expect(moved.described?.members["session_id"]).toBe(first.document["session_id"]);
    expect(written(checkpoint({ stage: "docs" })).document["session_id"]).toBe(first.document["session_id"]);
  });

  test("an output without its own file is in one of the layout, which its document names", () => {
    const described = describeCrunchRun(checkpoint(), RUN);
    expect(document["agent_outputs"]).toMatchObject({
      "system-architect": { create_spec: { output_location: ".claude/crunch/42/spec.md" } },
      orchestrator: { merge_findings: { output_location: ".claude/crunch/none/outputs/implementing-report.md" } },
    });
    expect([...outputFiles(described)]).toEqual(
      ["implementing", "e2e", "docs"].map((phase) => [
        `.claude/crunch/none/outputs/${phase}-report.md`,
        `Report of ${phase}\n`,
      ]),
    );
  });

  test("prerequisites and warnings name what is missing and what changed", () => {
    const { planes, ...rest } = checkpoint();
    const issue = { number: 42, title: "JWT", body: "Refresh.", labels: [], state: "open", updatedAt: AT } as const;
    const ready = { ...state, conflicts: [], issue };
    const recoveryOf = (values: CrunchState, change: Partial<Planes>) =>
      written({
        ...rest,
        planes: { ...planes, context: { values: values as object as JsonObject, tokens: {} }, ...change },
      }).document["recovery_info"];
    expect(recoveryOf(ready, {})).toMatchObject({ prerequisites_met: true, warnings: [] });
    const promised = { ...graph, nodes: graph.nodes.map((one) => ({ ...one, outputs: ["plan"] })) };
    const failed = stepGraph(promised, { kind: "fail", node: "code", at: AT, error: "no", final: true });
    expect(
      recoveryOf(
        { ...state, issue, outputs: [] },
        {
          position: { ...planes.position, graph: failed },
          inputs: { ...planes.inputs, issue: { ...issue, body: "Rotate." }, base: "c1" },
        },
      ),
    ).toMatchObject({
      prerequisites_met: false,
      warnings: [
        "Node code failed",
        "The output of node spec is missing: plan",
        "Conflict CONF-1 is not resolved",
        "The issue was edited during the run",
        "The base main moved during the run",
      ],
    });
  });

  test("the graph of the earlier phase is not reported as that of the current one", () => {
    const stageAttempt = { number: 4, steps: {}, failures: {} };
    const moved = written(checkpoint({ stage: "e2e", stageAttempt })).document;
    expect(moved).toMatchObject({
      workflow_state: { current_phase: "validation", phase_attempt: 1 },
      execution_graph: {},
    });
    expect(moved["recovery_info"]).toMatchObject({ resume_from: "e2e" });
  });

  test("events recorded without a reducer are reported too", () => {
    const stageAttempt = {
      ...checkpoint().planes.position.stageAttempt,
      unreduced: [{ kind: "message_withdrawn", id: "MSG-1", why: "no" }],
    };
    expect(written(checkpoint({ stageAttempt })).document["acp_state"]).toMatchObject({ pending_messages: [] });
  });
});

describe("imported again", () => {
  test("it has its phase, graph, team, messages, knowledge, counters: all but the steps of its stage attempt", () => {
    const { back } = written(checkpoint());
    const { position } = back.planes;
    expect(position).toMatchObject({ stage: "implementing", attempts: { e2e: 1 }, graph });
    expect(parseCrunchState(back.planes.context.values)).toEqual(state);
    expect(back.trigger).toBe("batch_complete");
    // No extension may become outdated when the run advances.
    expect(Object.keys(back.planes.extensions)).toEqual(["crunch"]);
    const again = describeCrunchRun(back, RUN);
    expect(encodeCrunch(again).bytes).toEqual(encodeCrunch({ ...again, original: null }).bytes);
  });

  test("while it continues, its members are updated, and the document's own fields stay", () => {
    const { back, document } = written(checkpoint());
    const original = { format: "crunch-yaml", document: { ...document, mine: "kept" } } as const;
    const further = reduceCrunch(state, { kind: "message_withdrawn", id: "MSG-1", why: "no" });
    const next = { ...back, id: null, original, planes: checkpoint({}, further).planes };
    expect(written(next).document).toMatchObject({ mine: "kept", acp_state: { pending_messages: [] } });
  });

  test("a graph or a phase that another tool moved counts, and causes a remark", () => {
    const { document } = written(checkpoint());
    const states = { spec: { status: "complete" }, code: { status: "complete" } };
    const edited = {
      ...document,
      workflow_state: { current_phase: "validation" },
      execution_graph: { ...(document["execution_graph"] as JsonObject), node_states: states },
    };
    const bytes = new TextEncoder().encode(JSON.stringify(edited));
    const { checkpoints, remarks } = decodeCrunch({ path: "a.json", bytes, compression: "none" });
    expect(remarks).toContainEqual({ path: "/execution_graph", text: expect.stringContaining("it counts") });
    expect(checkpoints[0]?.planes.position).toMatchObject({
      stage: "e2e",
      graph: { states: { code: { status: "complete" } } },
    });
  });

  test("a member in another format than Holdfast's is skipped with a remark", () => {
    const { document } = written(checkpoint());
    const bytes = new TextEncoder().encode(JSON.stringify({ ...document, holdfast: { version: 9 } }));
    const { checkpoints, remarks } = decodeCrunch({ path: "a.json", bytes, compression: "none" });
    expect(remarks).toContainEqual({ path: "/holdfast", text: expect.stringContaining("ignored") });
    expect(checkpoints[0]?.planes).toMatchObject({
      context: { values: {} },
      extensions: { team: { team_id: expect.any(String) } },
    });
  });
});

describe("crunch's own file", () => {
  test("is returned unchanged: the trigger of its index does not become part of it", () => {
    const document = {
      checkpoint_id: "CP-enrich-20250114-a3f2",
      workflow_state: { current_phase: "enrich" },
      recovery_info: { can_resume: true },
    };
    const bytes = new TextEncoder().encode(JSON.stringify(document));
    const [own] = decodeCrunch({ path: "a.json", bytes, compression: "none" }).checkpoints;
    if (own === undefined) return expect.unreachable();
    const again = encodeCrunch({ ...own, trigger: "stage" }, "json");
    expect(JSON.parse(new TextDecoder().decode(again.bytes))).toEqual(document);
    // A later checkpoint made from it has its own trigger.
    const later = encodeCrunch({ ...own, id: null, createdAt: AT, trigger: "stage" }, "json");
    expect(JSON.parse(new TextDecoder().decode(later.bytes))).toMatchObject({ trigger: "phase_transition" });
  });
});
