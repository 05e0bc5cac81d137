import { HoldfastError } from "../../core/error.ts";
import type { Lease } from "../../core/lease/lease.ts";
import { lookParams } from "../parts.ts";
import { reasonOf } from "../reason-of.ts";
import type { RunSession } from "../conduct/run-session.ts";
import { NO_WORKTREE, WORKTREE } from "../save/worktree-label.ts";

/**
 * Somebody took the run over while this process still worked: nothing more of it may go into the run, and nothing of it may be lost. What is in
 * memory (steps finished and refused, what an agent said) and the files as they are now become a run of their own, which has ended and can
 * be forked. Returns what to throw. Where that fails too, it says so; the run itself is whole either way.
 */
export async function keepAside(writer: RunSession, lease: Lease, lost: HoldfastError): Promise<HoldfastError> {
  try {
    const aside = await saveAside(writer, lease, lost);
    return told(lost, `What this process had done is kept as ${aside}; \`holdfast fork ${aside}\` takes it up.`, aside);
  } catch (error) {
    return told(
      lost,
      `What this process had done since its last checkpoint could not be kept: ${reasonOf(error)}.`,
      null,
    );
  }
}

async function saveAside(writer: RunSession, { epoch }: Lease, lost: HoldfastError): Promise<string> {
  const { parts, run, workspace } = writer;
  const { store } = parts;
  const source = await store.getCheckpoint({ run: run.id, sequence: writer.sequence });
  const parent = { id: source.id, digest: source.digest };
  const suffix = `-aside-${epoch}`;
  const id = `${run.id.slice(0, 63 - suffix.length).replace(/-+$/, "")}${suffix}`;
  // No work of its own: whoever looks for the run of an issue must find the one that somebody carries.
  await store.createRun({
    id,
    workflow: run.workflow,
    work: { kind: "none" },
    forkedFrom: parent,
    labels: { ...run.labels, [WORKTREE]: NO_WORKTREE },
  });
  const own = await store.takeLease({ run: id, label: `kept aside of ${run.id}` });
  try {
    const files =
      workspace === undefined
        ? null
        : await workspace.snapshot({ run: id, sequence: 1, message: suffix.slice(1), ...lookParams(parts) });
    const reason = `Kept aside of ${run.id}: ${lost.message}`;
    await store.commit({
      lease: own,
      entries: [{ kind: "run.ended", body: { outcome: "fatal", reason } }],
      checkpoint: {
        sequence: 1,
        trigger: "fork",
        name: `kept aside of ${run.id}`,
        planes: writer.planesWith(files),
        parent,
      },
    });
  } finally {
    await store.releaseLease(own);
  }
  return `${id}@1`;
}

function told(lost: HoldfastError, hint: string, aside: string | null): HoldfastError {
  const { code, message, data } = lost;
  return new HoldfastError({ code, message, hint, data: { ...data, aside }, cause: lost });
}
