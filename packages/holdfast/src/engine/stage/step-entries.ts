import type { NewEntry, StepFailed, StepFinished } from "../../core/journal/journal.ts";
import type { Json } from "../../core/json.ts";
import type { Amounts } from "../../core/position/position.ts";
import type { Stay } from "./stay.ts";

/**
 * In memory, and as an entry. A checkpoint of these files holds a part of every other step that is changing files now:
 * they cannot be told apart any more, so those go back to here.
 */
export function finishStep(
  stay: Stay,
  name: string,
  params: { readonly result: Json; readonly spent: Amounts | null; readonly sequence: number | null },
): NewEntry {
  const { writer } = stay;
  const { result, spent, sequence } = params;
  writer.steps.set(name, result);
  writer.failures.delete(name);
  writer.sessions.delete(name);
  writer.asides.delete(name);
  writer.errors.delete(name);
  writer.running.delete(name);
  if (sequence !== null)
    for (const [other, step] of writer.running) writer.running.set(other, { ...step, base: sequence });
  return finishedEntry({ result, spent, step: name, visit: writer.visit });
}

/** The keys come in canonical order: one entry a step, and each would be sorted first. */
export function finishedEntry(body: StepFinished): NewEntry {
  return { kind: "step.finished", body };
}

export function failEntry(
  stay: Stay,
  name: string,
  params: Pick<StepFailed, "reason" | "spent" | "verdict" | "errors" | "code">,
): NewEntry {
  const { writer } = stay;
  if (params.errors !== undefined) writer.errors.set(name, params.errors);
  // A session is of one agent; the next begins its own.
  if (params.verdict?.action === "fallback") writer.sessions.delete(name);
  writer.failures.set(name, (writer.failures.get(name) ?? 0) + 1);
  const body: StepFailed = { visit: writer.visit, step: name, ...params };
  return { kind: "step.failed", body };
}
