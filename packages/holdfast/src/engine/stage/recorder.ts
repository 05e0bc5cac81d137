import { HoldfastError } from "../../core/error.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { ApplyEvent } from "../../core/state.ts";
import { capture } from "../../core/values/index.ts";
import type { Workflow } from "../definition.ts";
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

  /** The event and the values that it makes are one commit: an event that the workflow's reducer refuses is not written. */
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
      let written: Promise<void>;
      try {
        event = capture(live);
        if (this.#workflow.reduce === null) throw noReducer(this.#workflow.shape.name);
        if (writer.parts.player !== undefined) event = await writer.parts.player.recorded(writer, name, event);
        written = writer.append(stay.finished(name, { recorded: true, result: event, spent: null }));
      } catch (error) {
        stay.unclaim(name);
        throw error;
      }
      await written;
      if (writer.listening) writer.tell({ kind: "step_finished", step: name, replayed: false });
      return event;
    });
  }
}

/** What the workflow's `reduce` makes of its values with a recorded event. */
export function eventsOf<S extends JsonObject>(workflow: Workflow<S>, run: string): NonNullable<ApplyEvent> {
  const { reduce, shape } = workflow;
  return (values, event) => {
    if (reduce === null) {
      throw new HoldfastError({
        code: "WORKFLOW_CHANGED",
        message: `Run ${run} has recorded events, and workflow ${shape.name} has no reducer any more`,
        hint: "Continue it with the workflow version that recorded them.",
        retry: "ask",
        data: { run },
      });
    }
    // The state is an object, and a capture has the shape of its source.
    return capture(reduce(workflow.parseState(values), event), values) as S;
  };
}

function noReducer(workflow: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `Workflow ${workflow} records an event and has no reducer`,
    hint: "Give defineWorkflow a `reduce` that says what the event makes of the state.",
  });
}
