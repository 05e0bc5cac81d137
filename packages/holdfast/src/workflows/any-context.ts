import type { JsonObject } from "../core/json.ts";
import type { StageContext } from "../engine/stage-context.ts";

/** Of a stage of whichever workflow: what is the same in all of them needs nothing of the state. */
export type AnyContext = StageContext<JsonObject>;
