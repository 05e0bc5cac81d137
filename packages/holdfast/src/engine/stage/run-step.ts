import { HoldfastError } from "../../core/error.ts";
import type { NewEntry, StepStarted } from "../../core/journal/journal.ts";
import type { Json } from "../../core/json.ts";
import { own, rebaseRunning } from "../../core/state.ts";
import { capture } from "../../core/values/index.ts";
import { lookParams } from "../parts.ts";
import { putFilesBack } from "../restore/put-files-back.ts";
import { playStep } from "../replay/play-step.ts";
import { reasonOf } from "../reason-of.ts";
import { saveBefore } from "./save-before.ts";
import type { StepOptions, StepScope } from "../stage-context.ts";
import type { Stay } from "./stay.ts";
import { withTimer } from "../with-timer.ts";

type Work = (scope: StepScope) => Promise<Json> | Json;

/** A plain step is one commit with one entry, after its work: begun and lost, it has changed nothing that counts. */
export async function runStep(stay: Stay, name: string, work: Work, options?: StepOptions): Promise<Json> {
  const { writer } = stay;
  const known = stay.claim(name);
  if (known !== undefined) {
    if (writer.listening) writer.tell({ kind: "step_finished", step: name, replayed: true });
    return known;
  }
  stay.enter();
  try {
    if (options?.risk !== undefined)
      await saveBefore(writer, { trigger: "before_risky", name: options.risk, entries: () => [] });
    if (writer.parts.player !== undefined) return await playStep(stay, name);
    if (options?.changesFiles === true)
      return await runFileStep(stay, name, { work, artifacts: options.artifacts ?? [] });
    if (writer.listening) writer.tell({ kind: "step_started", step: name });
    let result: Json;
    try {
      result = capture(await work(scopeOf(stay, name)));
    } catch (error) {
      throw await failStep(stay, name, error);
    }
    stay.open();
    await writer.append(stay.finished(name, { result, spent: null }));
    if (writer.listening) writer.tell({ kind: "step_finished", step: name, replayed: false });
    return result;
  } finally {
    stay.leave();
  }
}

async function runFileStep(
  stay: Stay,
  name: string,
  { work, artifacts }: { readonly work: Work; readonly artifacts: readonly string[] },
): Promise<Json> {
  const { writer } = stay;
  await beginStep(stay, name, { files: true, estimate: null });
  let result: Json;
  try {
    result = capture(await withTimer(stay, () => Promise.resolve(work(scopeOf(stay, name)))));
  } catch (error) {
    throw await failStep(stay, name, error);
  }
  stay.open();
  await writer.save({
    trigger: (await areComplete(writer, artifacts)) ? "artifact_complete" : "automatic",
    name,
    prepare: () => [stay.finished(name, { result, spent: null })],
    change: (planes, { sequence }) => rebaseRunning(planes, sequence),
  });
  if (writer.listening) writer.tell({ kind: "step_finished", step: name, replayed: false });
  return result;
}

async function areComplete({ parts, workspace }: Stay["writer"], artifacts: readonly string[]): Promise<boolean> {
  if (workspace === undefined || artifacts.length === 0 || !parts.checkpoints.artifactComplete) return false;
  const outputs = parts.outputs(workspace.root);
  for (const path of artifacts) if ((await outputs.read(path)) === null) return false;
  return true;
}

/** Durable before the work: found without an end, the files may be half of it. */
export async function beginStep(
  stay: Stay,
  name: string,
  params: Pick<StepStarted, "files" | "estimate" | "counted" | "aside">,
): Promise<void> {
  const { writer } = stay;
  const body: StepStarted = { visit: writer.visit, step: name, ...params };
  if (params.files) writer.fileSteps += 1;
  await writer.append({ kind: "step.started", body });
  if (writer.listening) writer.tell({ kind: "step_started", step: name });
}

/** Returns what to throw. Work that was told to stop has not failed: it is as after a crash. */
export async function failStep(stay: Stay, name: string, error: unknown): Promise<unknown> {
  const { writer } = stay;
  if (writer.halt.cause !== undefined) return writer.halt.cause;
  stay.open();
  const reason = reasonOf(error);
  const step = own(writer.running, name);
  const spent = step?.estimate ?? null;
  const code = error instanceof HoldfastError ? { code: error.code } : {};
  const finish = (): readonly NewEntry[] => [stay.failed(name, { reason, spent, ...code })];
  if (step?.files === true && !(await movedBranch(stay, step.base))) {
    await putFilesBack(writer, { to: step.base, trigger: "error_recovery", why: `${name} failed`, finish });
  } else {
    await writer.append(...finish());
  }
  stay.unclaim(name);
  if (writer.listening) writer.tell({ kind: "step_failed", step: name, reason, retryAt: null });
  return error;
}

/**
 * Steps of ours that move the branch do it whole and may be called again; the old files under the new head would look
 * like changes to undo it.
 */
export async function movedBranch(stay: { readonly writer: Stay["writer"] }, base: number): Promise<boolean> {
  const { workspace, parts, run } = stay.writer;
  if (workspace === undefined) return false;
  const { planes } = await parts.store.getCheckpoint({ run: run.id, sequence: base });
  const { head } = await workspace.look(lookParams(parts));
  return planes.files !== null && planes.files.head !== head;
}

export function markOf(stay: Stay, name: string): string {
  return stay.mark + name;
}

export function attemptOf(stay: Stay, name: string): number {
  return (own(stay.writer.state.position.visit.failures, name) ?? 0) + 1;
}

function scopeOf(stay: Stay, name: string): StepScope {
  return { signal: stay.writer.halt.signal, attempt: attemptOf(stay, name), mark: markOf(stay, name) };
}
