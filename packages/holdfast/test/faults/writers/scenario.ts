import { createHash } from "node:crypto";
import type { FilesPlane, Planes } from "@holdfast/core/checkpoint";
import type { JsonObject } from "@holdfast/core/json";

/** What the writers save. Made from the sequence alone, so that a judge knows what must come back, byte for byte. */
export const RUN = "crash-run";

/** Small, medium, one above the size from which bytes get their own file, and a large one. */
const SIZES = [120, 9_500, 300_000, 64_000, 420_000, 2_000] as const;

export function planesOf(sequence: number, files: FilesPlane | null = null): Planes {
  return {
    position: {
      workflow: "none",
      definition: null,
      stage: `stage-${sequence}`,
      iteration: sequence,
      attempts: { build: sequence },
      streaks: {},
      score: sequence / 10,
      best: null,
      graph: null,
      budget: {
        spent: { tokens: sequence * 100, microUsd: sequence, milliseconds: sequence * 7 },
        reserved: { tokens: 0, microUsd: 0, milliseconds: 0 },
        limit: { tokens: null, microUsd: null, milliseconds: null },
      },
      feedback: null,
      reason: null,
      stageAttempt: { number: 0, steps: {}, failures: {} },
    },
    context: { values: valuesOf(sequence), tokens: { model: sequence * 100 } },
    files,
    conversation: null,
    effects: { entry: 0, pending: [] },
    inputs: { issue: null, task: `save number ${sequence}`, base: null, plan: null },
    config: { agent: null, model: null, temperature: null, seed: null, mode: "default", tools: [], inputs: {} },
    extensions: { messages: transcript(sequence) },
  };
}

function valuesOf(sequence: number): JsonObject {
  const bytes = SIZES[(sequence - 1) % SIZES.length] ?? 0;
  return { sequence, bulk: noise(`bulk ${sequence}`, bytes), unchanged: noise("unchanged", 5_000) };
}

/** Grows from save to save, as a conversation does. */
function transcript(sequence: number): readonly JsonObject[] {
  return Array.from({ length: sequence * 3 }, (_, i) => ({
    role: i % 2 === 0 ? "user" : "agent",
    text: noise(`line ${i}`, 400),
  }));
}

/** Text that does not compress, so that bytes asked for are bytes written. */
function noise(name: string, bytes: number): string {
  const key = `${name} ${bytes}`;
  const known = made.get(key);
  if (known !== undefined) return known;
  let text = "";
  for (let i = 0; text.length < bytes; i += 1) text += createHash("sha512").update(`${name} ${i}`).digest("base64");
  text = text.slice(0, bytes);
  made.set(key, text);
  return text;
}

const made = new Map<string, string>();
