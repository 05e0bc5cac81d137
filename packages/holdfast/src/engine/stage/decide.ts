import type { RunParked } from "../../core/journal/journal.ts";
import { parkRun } from "../conduct/park.ts";
import { playStep } from "../replay/play-step.ts";
import type { Decision } from "../stage-context.ts";
import { RECHECK } from "./stay.ts";
import type { Stay } from "./stay.ts";

/** Waits for the user's answer; then the answer, the same for the rest of the visit. */
export async function decide(stay: Stay, { name: own, question, options, recheck }: Decision): Promise<string> {
  const name = recheck === true ? `${RECHECK}${own}` : own;
  const known = stay.claim(name);
  if (typeof known === "string") return known;
  if (stay.writer.parts.player?.has(stay.writer, name) === true) return String(await playStep(stay, name));
  const parked: RunParked = {
    on: "person",
    reason: question,
    until: null,
    decision: { name, question, options, ...(recheck === true ? { recheck } : {}) },
  };
  return await parkRun(stay, parked);
}
