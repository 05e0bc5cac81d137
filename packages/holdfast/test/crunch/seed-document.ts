import type { JsonObject } from "@holdfast/core/json";

/** A checkpoint of issue 1 as crunch itself writes it, with every member of its full structure. */
export function seedDocument(
  phase: string,
  rest: JsonObject & { readonly snapshot?: JsonObject; readonly label?: string; readonly id?: string } = {},
): JsonObject {
  const { snapshot = {}, label = `state:${phase}`, id = "20260114-a3f2", ...members } = rest;
  return {
    checkpoint_id: `CP-${phase}-${id}`,
    version: "1.0",
    created_at: "2026-01-14T10:00:00Z",
    issue_number: 1,
    session_id: "7d1f0a52-3c5e-4b8a-9d57-0a4f6d1c2b3e",
    workflow_state: {
      current_phase: phase,
      current_state_label: label,
      phase_started_at: "2026-01-14T09:00:00Z",
      phase_attempt: 1,
    },
    issue_snapshot: {
      title: "Add a greeting",
      // The local forge marks the issues that it files.
      body: "Say hello.\n\n<!-- holdfast:bench -->\n",
      labels: [label],
      assignees: [],
      branch: null,
      ...snapshot,
    },
    team_state: {},
    execution_graph: {},
    agent_outputs: {},
    acp_state: { pending_messages: [], awaiting_response: [], conflicts_in_progress: [] },
    knowledge_context: { injected_entries: [], captured_entries: [], pending_captures: [] },
    files_modified: [],
    recovery_info: { can_resume: true, resume_from: phase, prerequisites_met: true, warnings: [] },
    ...members,
  };
}
