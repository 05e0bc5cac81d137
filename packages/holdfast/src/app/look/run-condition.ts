import type { Lease, OwnerLiveness } from "../../core/lease/lease.ts";
import type { ParkedOn, RunSummary } from "../../core/run/run.ts";
import type { Question } from "./journal-picture.ts";

/** An end is an end, whoever holds the lease; then a live holder; a parked run keeps its reason also when nobody holds it. */
export function conditionOf(params: {
  readonly run: Pick<RunSummary, "state">;
  readonly holder: { readonly lease: Lease; readonly alive: OwnerLiveness } | undefined;
  readonly question: Question | null;
  /** Has a workflow entered a stage? */
  readonly worked: boolean;
}): Condition {
  const { state } = params.run;
  const { holder } = params;
  if (state.kind === "done") return { kind: "done", at: state.at };
  if (state.kind === "fatal") return { kind: "fatal", at: state.at, reason: state.reason };
  if (holder?.alive === "alive") return { kind: "running", lease: holder.lease };
  if (state.kind === "parked")
    return {
      kind: "parked",
      on: state.on,
      reason: state.reason,
      until: state.until,
      question: state.on === "person" ? params.question : null,
    };
  if (holder?.alive === "unknown") return { kind: "held", lease: holder.lease };
  if (!params.worked) return { kind: "manual" };
  return holder === undefined ? { kind: "stopped" } : { kind: "crashed", lease: holder.lease };
}

export type Condition =
  /** A living process on this host carries it. */
  | { readonly kind: "running"; readonly lease: Lease }
  /** Somebody holds it whose life cannot be seen from here (another host). */
  | { readonly kind: "held"; readonly lease: Lease }
  | {
      readonly kind: "parked";
      readonly on: ParkedOn;
      readonly reason: string;
      readonly until: string | null;
      readonly question: Question | null;
    }
  /** Its process died without letting go. `resume` takes it up. */
  | { readonly kind: "crashed"; readonly lease: Lease }
  /** Let go in order (Ctrl+C, stop) before the end. `resume` takes it up. */
  | { readonly kind: "stopped" }
  /** Saved by hand or by a program of its own: no workflow carries it. */
  | { readonly kind: "manual" }
  | { readonly kind: "done"; readonly at: string }
  | { readonly kind: "fatal"; readonly at: string; readonly reason: string };
