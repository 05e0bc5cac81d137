import type { Finding, Verdict } from "./finding.ts";
import type { JsonObject } from "../json.ts";
import type { Position } from "../position/position.ts";

/** Where a run stands, as a workflow judges what changed around it. */
export interface Standing {
  readonly position: Position;
  readonly values: JsonObject;
}

/** What a workflow knows better than the default policy about a world that changed while nobody worked. Pure. */
export interface Freshness {
  /** The run itself did it: no difference at all. */
  readonly isOwn: (finding: Finding, standing: Standing) => boolean;
  /** In place of the policy's verdict; null: as by default. */
  readonly judge: (finding: Finding, standing: Standing) => Verdict | null;
  /** Somebody moved the work on, or back: the stage to go on at, and why; null: where it stood. `labels` as they are now. */
  readonly relocate: (
    labels: readonly string[],
    standing: Standing,
  ) => { readonly stage: string; readonly why: string } | null;
  /**
   * Somebody takes up, by force, a run that had ended, from the checkpoint at which it stood so: what its values are from now on (the rest of them
   * stays), and the stage that it enters, null: it goes on in its own. null: as it stood.
   */
  readonly reopen?: (standing: Standing) => {
    readonly values: JsonObject;
    readonly enters: { readonly stage: string; readonly iteration: number } | null;
    readonly why: string;
  } | null;
}
