import type { StageContext } from "../../engine/stage-context.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import type { ImplOptions } from "./options.ts";
import type { ImplState } from "./state.ts";

/** What every stage of impl works with. */
export interface ImplWork {
  readonly options: ImplOptions;
  readonly parts: WorkParts;
}

export type ImplContext = StageContext<ImplState>;
