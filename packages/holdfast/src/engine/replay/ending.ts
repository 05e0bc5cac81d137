import type { Divergence } from "../../core/replay/divergence.ts";
import type { RunSession } from "../conduct/run-session.ts";
import { PlayEnd } from "./played.ts";

/** Why a replay stopped without having parted from its record. */
export type PlayStop =
  | { readonly kind: "end" }
  /** Somebody went back, raised a limit, took the world's changes over: it goes on from this checkpoint. */
  | { readonly kind: "jump"; readonly sequence: number };

/** How a replay comes to its end: whatever is found first counts, and stops the engine that works it through. */
export class Ending {
  divergence: Divergence | null = null;
  stop: PlayStop | null = null;

  end(writer: RunSession, stop: PlayStop): never {
    this.stop ??= stop;
    return halt(writer, "the record ends here");
  }

  diverge(
    writer: RunSession,
    found: Pick<Divergence, "what" | "field" | "expected" | "actual"> & {
      readonly step?: string;
      readonly entry?: number | null;
      readonly checkpoint?: number;
    },
  ): never {
    const { stage, iteration, visit } = writer.position;
    const { what, field, expected, actual, step = null, entry = null, checkpoint = null } = found;
    const where = { stage, iteration, visit: visit.number, step, checkpoint, entry };
    this.divergence ??= { where, what, field, expected, actual };
    return halt(writer, "it parts from its record here");
  }
}

function halt(writer: RunSession, why: string): never {
  const end = new PlayEnd(why);
  writer.halt.stop(end);
  throw end;
}
