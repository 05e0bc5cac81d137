import { newBudget } from "../../core/position/budget.ts";
import { emptyPlanes } from "../../core/checkpoint/checkpoint.ts";
import type { ExecutionConfig, InputsPlane, Planes } from "../../core/checkpoint/checkpoint.ts";
import type { StageEntered } from "../../core/journal/journal.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Budget } from "../../core/position/position.ts";
import type { Run, Work } from "../../core/run/run.ts";
import type { Workspace } from "../../ports/workspace.ts";
import type { Workflow } from "../definition.ts";
import { holdLease } from "../lease/hold-lease.ts";
import { lookParams } from "../parts.ts";
import { refuseRolledBack } from "../save/newer-refs.ts";
import type { WorkParts } from "../work-parts.ts";

export interface BeginParams<S extends JsonObject> {
  readonly parts: WorkParts;
  readonly workflow: Workflow<S>;
  readonly id: string;
  readonly work: Work;
  readonly inputs: InputsPlane;
  /** `config.inputs` holds the workflow's options. */
  readonly config: ExecutionConfig;
  readonly labels?: JsonObject;
  /** Where its files are; undefined: it has none. */
  readonly workspace: Workspace | undefined;
  readonly limit?: Partial<Budget["limit"]>;
}

/**
 * A new run at its workflow's first stage. Killed anywhere and called again with the same, it is the same run; one that
 * has begun already is left as it is. RUN_EXISTS when the id stands for other work.
 */
export async function beginRun<S extends JsonObject>(params: BeginParams<S>): Promise<Run> {
  const { parts, id, workspace, inputs } = params;
  const { store } = parts;
  await refuseRolledBack(parts, id);
  const planes = firstPlanes(params);
  const run = await store.createRun({
    id,
    workflow: params.workflow.shape.name,
    work: params.work,
    ...(params.labels === undefined ? {} : { labels: params.labels }),
  });
  if ((await store.listCheckpoints({ run: id, limit: 1 })).length > 0) return run;
  await using lease = await holdLease(parts, id);
  // Another process may have begun it while this one waited.
  if ((await store.listCheckpoints({ run: id, limit: 1 })).length > 0) return run;
  const { base } = inputs;
  const files =
    workspace === undefined
      ? null
      : await workspace.snapshot({
          run: id,
          sequence: 1,
          message: "begin",
          ...lookParams(parts),
          ...(base === null ? {} : { base }),
        });
  const { stage, iteration, visit } = planes.position;
  const entered: StageEntered = { visit: visit.number, stage, iteration };
  await store.commit({
    lease: lease.lease,
    entries: [{ kind: "stage.entered", body: entered }],
    checkpoint: { sequence: 1, trigger: "stage", planes: { ...planes, files } },
  });
  return run;
}

function firstPlanes<S extends JsonObject>(params: BeginParams<S>): Planes {
  const { workflow, config, parts } = params;
  const { shape, definition } = workflow;
  const empty = emptyPlanes({ workflow: shape.name, stage: shape.initial });
  return {
    ...empty,
    position: {
      ...empty.position,
      definition,
      budget: newBudget(params.limit),
      visit: { number: 1, steps: {}, failures: {} },
      fence: config.seed === null ? `${parts.random()}${parts.random()}${parts.random()}` : `seed ${config.seed}`,
    },
    context: { values: workflow.initialState(config.inputs), tokens: {} },
    inputs: params.inputs,
    config,
  };
}
