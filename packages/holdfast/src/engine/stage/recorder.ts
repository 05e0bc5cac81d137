import { HoldfastError } from "../../core/error.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { capture } from "../../core/values/index.ts";
import type { Workflow } from "../definition.ts";
import { finishedEntry } from "./step-entries.ts";
import type { Stay } from "./stay.ts";

/** The workflow's values in the middle of a stage: read, and changed by one recorded event at a time. */
export class Recorder<S extends JsonObject> {
  readonly #stay: Stay;
  readonly #workflow: Workflow<S>;
  /** What was parsed, so that a state that did not change is the same object. */
  #parsed: { readonly values: JsonObject; readonly state: S } | undefined;

  constructor(stay: Stay, workflow: Workflow<S>) {
    this.#stay = stay;
    this.#workflow = workflow;
    this.#parsed = { values: stay.writer.values, state: workflow.parseState(stay.writer.values) };
  }

  get state(): S {
    const { values } = this.#stay.writer;
    if (this.#parsed?.values !== values) this.#parsed = { values, state: this.#workflow.parseState(values) };
    return this.#parsed.state;
  }

  /** Memory changes in the same turn as the commit is called, so that a checkpoint beside it holds both or neither. */
  async record(name: string, live: Json): Promise<Json> {
    const stay = this.#stay;
    const { writer } = stay;
    const known = stay.claim(name);
    if (known !== undefined) {
      if (writer.listening) writer.tell({ kind: "step_finished", step: name, replayed: true });
      return known;
    }
    return await stay.busy(async () => {
      let event: Json;
      try {
        event = capture(live);
        if (writer.parts.player !== undefined) event = await writer.parts.player.recorded(writer, name, event);
        writer.values = reduceOne(this.#workflow, writer.values, { state: this.state, event });
      } catch (error) {
        stay.unclaim(name);
        throw error;
      }
      writer.steps.set(name, event);
      await writer.append(
        finishedEntry({ recorded: true, result: event, spent: null, step: name, visit: writer.visit }),
      );
      if (writer.listening) writer.tell({ kind: "step_finished", step: name, replayed: false });
      return event;
    });
  }
}

/** Values of a checkpoint with what was recorded after it. WORKFLOW_CHANGED when there is something and nobody to take it in. */
export function reduceAll<S extends JsonObject>(
  workflow: Workflow<S>,
  params: { readonly run: string; readonly values: JsonObject; readonly events: readonly Json[] },
): JsonObject {
  const { run, events } = params;
  if (events.length === 0) return params.values;
  if (workflow.reduce === null) {
    throw new HoldfastError({
      code: "WORKFLOW_CHANGED",
      message: `Run ${run} has recorded events, and workflow ${workflow.shape.name} has no reducer any more`,
      hint: "Carry it on with the version that recorded them.",
      retry: "ask",
      data: { run },
    });
  }
  return events.reduce<JsonObject>(
    (values, event) => reduceOne(workflow, values, { state: workflow.parseState(values), event }),
    params.values,
  );
}

function reduceOne<S extends JsonObject>(
  workflow: Workflow<S>,
  values: JsonObject,
  given: { readonly state: S; readonly event: Json },
): JsonObject {
  if (workflow.reduce === null) {
    throw new HoldfastError({
      code: "USAGE",
      message: `Workflow ${workflow.shape.name} records an event and has no reducer`,
      hint: "Give defineWorkflow a `reduce` that says what the event makes of the state.",
    });
  }
  // The state is an object, and a capture has the shape of what it was taken from.
  return capture(workflow.reduce(given.state, given.event), values) as S;
}
