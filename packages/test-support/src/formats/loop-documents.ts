// Random loop checkpoints for property tests of the loop formats.

import * as fc from "fast-check";
import type { Json, JsonObject } from "@holdfast/core/json";

/** The arbitraries that documents are made of. The suites pass them in, because formats depend on core only. */
export interface DocumentParts {
  readonly unknown: fc.Arbitrary<JsonObject>;
  readonly json: fc.Arbitrary<Json>;
  readonly word: fc.Arbitrary<string>;
}

/** Valid loop checkpoints: any of the optional fields, odd ids, and unknown fields at every level. */
export function loopDocuments(parts: DocumentParts): fc.Arbitrary<JsonObject> {
  const { word } = parts;
  const withUnknown = (known: fc.Arbitrary<object>): fc.Arbitrary<JsonObject> =>
    fc
      .tuple(known, parts.unknown, fc.boolean())
      .map(([fields, unknown, first]): JsonObject => (first ? { ...unknown, ...fields } : { ...fields, ...unknown }));
  const maybe = { requiredKeys: [] };
  const count = fc.nat(300);
  const words = fc.array(word, { maxLength: 2 });
  const object = fc.dictionary(word, parts.json, { maxKeys: 3, noNullPrototype: true });

  const state = withUnknown(
    fc.record(
      {
        phase: fc.string({ maxLength: 8 }),
        step: fc.string({ maxLength: 8 }),
        progress: withUnknown(
          fc.record({ total_steps: count, completed_steps: count, percentage: fc.constantFrom(0, 2.5, 100) }, maybe),
        ),
        iteration: withUnknown(fc.record({ current: fc.nat(3), max: count, failures: fc.nat(2) }, maybe)),
        artifacts: fc.array(
          withUnknown(
            fc.record(
              { path: word, hash: word, status: fc.constantFrom("created", "modified", "deleted", "unchanged") },
              maybe,
            ),
          ),
          { maxLength: 3 },
        ),
        variables: object,
        agent_state: withUnknown(fc.record({ current_agent: word, memory: object, pending_actions: words }, maybe)),
      },
      { requiredKeys: ["phase", "progress", "artifacts"] },
    ),
  );

  const config = withUnknown(
    fc.record(
      {
        model: word,
        temperature: fc.constantFrom(0, 0.7, 2),
        seed: fc.integer(),
        execution_mode: fc.constantFrom("strict", "seeded", "logged", "default"),
        agent: word,
        tools: words,
        inputs: object,
      },
      maybe,
    ),
  );

  const metadata = withUnknown(
    fc.record(
      {
        size_bytes: count,
        compression: fc.constantFrom("none", "gzip", "lz4"),
        retention_days: fc.integer(),
        tags: words,
        schema_version: fc.constantFrom("1.0", "2.0"),
      },
      maybe,
    ),
  );
  return withUnknown(
    fc.record(
      {
        checkpoint_id: fc.oneof(fc.uuid(), word),
        workflow_id: fc.oneof(word, fc.string({ minLength: 1, maxLength: 8 })),
        loop_id: fc.option(
          fc.oneof(fc.constantFrom("ralph--2aee878f", "ralph-x-2026-01-25", "ralph-a-e5f6g7h8"), word, fc.uuid()),
        ),
        workflow_type: fc.constantFrom("ralph_loop", "flow_command", "skill_execution", "agent_task"),
        created_at: fc.constantFrom("2026-01-25T15:00:00Z", "2026-01-25T15:00:00.125+05:30", "2026-01-25T15:00:00"),
        trigger: fc.constantFrom(
          "manual",
          "automatic",
          "phase_boundary",
          "iteration",
          "pre_risky_op",
          "artifact_complete",
        ),
        state,
        execution_config: config,
        metadata,
      },
      { requiredKeys: ["checkpoint_id", "workflow_id", "created_at", "state"] },
    ),
  );
}
