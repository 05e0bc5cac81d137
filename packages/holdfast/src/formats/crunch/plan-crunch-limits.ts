import type { CheckpointSummary } from "../../core/checkpoint/checkpoint.ts";
import { isJsonObject } from "../../core/json.ts";
import { planRetention } from "../../core/retention/retention-plan.ts";
import type { RetentionPolicy } from "../../core/retention/retention.ts";
import type { Loss } from "../format.ts";
import { field } from "../patch-document.ts";
import type { CrunchFile } from "./crunch-directory.ts";

/** What crunch's own configuration allows a directory to hold. */
export interface CrunchLimits {
  readonly retention: RetentionPolicy;
  /** Ids that the run can write again. What another wrote may be the only copy, and is never removed. */
  readonly ours: ReadonlySet<string>;
  /** Bytes that a file takes on disk; with its content where it is still to be written. */
  readonly sizeOf: (name: string, bytes: Uint8Array | null) => number;
}

export interface LimitedFile extends CrunchFile {
  /** null: it is there already. */
  readonly bytes: Uint8Array | null;
}

/** Ids that are not to be there, and what to say of it. `files` oldest first. */
export function planCrunchLimits(
  files: readonly LimitedFile[],
  { retention, ours, sizeOf }: CrunchLimits,
): { readonly drop: ReadonlySet<string>; readonly losses: readonly Loss[] } {
  const limit = retention.maxBytes ?? Number.POSITIVE_INFINITY;
  const sized = files.map((file) => ({ file, size: sizeOf(file.name, file.bytes) }));
  const tooLarge = sized.filter(({ file, size }) => file.bytes !== null && size > limit);
  const fitting = sized.filter((one) => !tooLarge.includes(one));
  const [plan] = planRetention({
    subjects: [
      {
        run: "crunch",
        state: { kind: "open" },
        checkpoints: fitting.map(({ file, size }, at) => summaryOf(file, at + 1, size)),
        pinned: new Map(
          fitting.flatMap(({ file }, at) => (ours.has(file.checkpoint.id ?? "") ? [] : [[at + 1, "of another"]])),
        ),
        resumable: new Set(fitting.flatMap(({ file }, at) => (canResume(file) ? [at + 1] : []))),
      },
    ],
    policy: retention,
    // Crunch drops nothing for its age, so the hour does not matter.
    now: 0,
  });
  const dropped = (plan?.decisions ?? []).flatMap((decision) =>
    decision.action === "drop" ? [fitting[decision.sequence - 1]] : [],
  );
  const gone = dropped.flatMap((one) => one?.file.checkpoint.id ?? []);
  const left = fitting.reduce((sum, one) => sum + (dropped.includes(one) ? 0 : one.size), 0);
  return {
    drop: new Set([...gone, ...tooLarge.flatMap(({ file }) => file.checkpoint.id ?? [])]),
    losses: [
      ...tooLarge.map(({ file, size }) => ({
        path: `checkpoints.${file.checkpoint.id ?? ""}`,
        why: `It has ${size} bytes and max_size_mb allows ${limit}: not written`,
      })),
      ...(gone.length === 0
        ? []
        : [{ path: "checkpoints", why: `${gone.length} are not kept there: retention or max_size_mb` }]),
      ...(left <= limit
        ? []
        : [{ path: "checkpoints", why: `They have ${left} bytes and max_size_mb allows ${limit}; none more may go` }]),
    ],
  };
}

function summaryOf({ checkpoint, name }: CrunchFile, sequence: number, size: number): CheckpointSummary {
  const { position } = checkpoint.planes;
  return {
    id: `crunch@${sequence}`,
    run: "crunch",
    sequence,
    entry: sequence,
    parent: null,
    trigger: checkpoint.trigger,
    name,
    createdAt: checkpoint.createdAt ?? "",
    stage: position.stage,
    iteration: position.iteration,
    score: null,
    tree: null,
    tags: [],
    size: { logical: size, added: size },
    digest: "",
    quarantined: false,
  };
}

function canResume({ checkpoint }: CrunchFile): boolean {
  const recovery = field(checkpoint.planes.extensions, "recovery");
  return !isJsonObject(recovery) || field(recovery, "can_resume") !== false;
}
