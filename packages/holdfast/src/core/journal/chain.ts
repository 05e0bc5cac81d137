import type { CheckpointParent } from "../checkpoint/checkpoint.ts";
import type { EntryKind } from "./journal.ts";
import type { Digest, Hasher, JsonObject } from "../json.ts";
import type { Run } from "../run/run.ts";
import type { Trigger } from "../checkpoint/trigger.ts";
import { canonicalJson } from "../values/index.ts";

/** What an entry's hash covers, besides the hash before it. */
export interface Link {
  readonly run: string;
  readonly entry: number;
  readonly kind: EntryKind;
  readonly at: string;
  readonly epoch: number;
  /** Canonical JSON of the entry's body. */
  readonly body: string;
}

/** The keys are written in canonical order by hand: this runs for every entry. */
export function entryHash(previous: Digest, link: Link, hasher: Hasher): Digest {
  return hasher(
    `holdfast-entry-1\n${previous}\n{"at":"${link.at}","body":${link.body},"entry":${link.entry},"epoch":${link.epoch},"kind":${kindText(link.kind)},"run":"${link.run}"}`,
  );
}

function kindText(kind: EntryKind): string {
  return kind === "checkpoint" ? '"checkpoint"' : JSON.stringify(kind);
}

/** What the first entry is chained to: the run's birth record. */
export function birthDigest(run: Run, hasher: Hasher): Digest {
  return hasher(canonicalJson(birthRecord(run)));
}

export function birthRecord(run: Run): JsonObject {
  return {
    id: run.id,
    createdAt: run.createdAt,
    workflow: run.workflow,
    work: run.work,
    forkedFrom: parentRecord(run.forkedFrom),
    labels: run.labels,
  };
}

/** The body of a checkpoint's entry, besides its parent: all of it but the planes, for which `root` stands. */
export interface CheckpointHead {
  readonly sequence: number;
  readonly trigger: Trigger;
  readonly name: string | null;
  readonly stage: string;
  readonly iteration: number;
  readonly score: number | null;
  readonly tree: string | null;
  /** Bytes of the planes as canonical JSON, and what this checkpoint added on disk when it was made. */
  readonly logical: number;
  readonly added: number;
  /** Digest of the planes as one value. */
  readonly root: Digest;
}

export function checkpointBody(head: CheckpointHead, parent: CheckpointParent | null): JsonObject {
  return {
    added: head.added,
    iteration: head.iteration,
    logical: head.logical,
    name: head.name,
    parent: parentRecord(parent),
    root: head.root,
    score: head.score,
    sequence: head.sequence,
    stage: head.stage,
    tree: head.tree,
    trigger: head.trigger,
  };
}

/** Canonical JSON of checkpointBody, written out by hand for the same reason as above. */
export function checkpointBodyText(head: CheckpointHead, parent: CheckpointParent | null): string {
  const parentText = parent === null ? "null" : `{"digest":"${parent.digest}","id":"${parent.id}"}`;
  return `{"added":${head.added},"iteration":${head.iteration},"logical":${head.logical},"name":${text(head.name)},"parent":${parentText},"root":"${head.root}","score":${head.score},"sequence":${head.sequence},"stage":${text(head.stage)},"tree":${text(head.tree)},"trigger":"${head.trigger}"}`;
}

/** Equal to canonical JSON for strings without lone surrogates, which capture refuses. */
function text(value: string | null): string {
  return value === null ? "null" : JSON.stringify(value);
}

function parentRecord(parent: CheckpointParent | null): JsonObject | null {
  return parent === null ? null : { id: parent.id, digest: parent.digest };
}
