import type { Head, Heads } from "./witness/heads.ts";
import type { CheckpointColumns, Log } from "./log.ts";
import type { Places } from "./pack/places.ts";
import type { Runs } from "./runs.ts";
import { type EntryKind, entryHash } from "@holdfast/core/journal";
import type { Digest, Hasher, JsonObject } from "@holdfast/core/json";
import { canonicalJson } from "@holdfast/core/values/canonical-json";

/** The moment of a commit, as number and as text. */
export interface Moment {
  readonly ms: number;
  readonly iso: string;
}

export interface Append {
  /** Under the run's lease: the holder alone writes so, and its head stays remembered. */
  entry(head: Head, entry: PreparedEntry, moment: Moment): Head;
  checkpoint(head: Head, prepared: PreparedCheckpoint, moment: Moment): Head;
  /** Without the lease: whoever holds it must look at the head again. */
  outside(
    head: Head,
    entry: { readonly kind: EntryKind; readonly body: JsonObject; readonly epoch?: number },
    moment: Moment,
  ): Head;
}

export interface PreparedEntry {
  readonly kind: EntryKind;
  /** Canonical JSON. */
  readonly body: string;
  readonly epoch: number;
}

export interface PreparedCheckpoint {
  readonly columns: CheckpointColumns;
  /** Canonical JSON of what the columns say. */
  readonly body: string;
  readonly root: Uint8Array;
  readonly epoch: number;
}

/** The one way into the log: numbers the entry, chains it, and moves the head. */
export function createAppend(params: {
  readonly log: Log;
  readonly places: Places;
  readonly heads: Heads;
  readonly runs: Runs;
  readonly hasher: Hasher;
}): Append {
  const { log, places, heads, runs, hasher } = params;

  function entry(head: Head, prepared: PreparedEntry, moment: Moment): Head {
    const { kind, epoch, body } = prepared;
    const number = head.entry + 1;
    const hash = hashOf(head, prepared.kind, epoch, body, moment);
    const pos = places.next();
    log.insert({ pos, run: head.no, entry: number, kind, at: moment.ms, epoch, hash, checkpoint: null }, body);
    places.note(pos, head.no, number, null);
    const next = headAfter(head, number, hash, head.sequence, head.digest);
    heads.set(next);
    return next;
  }

  function hashOf(head: Head, kind: EntryKind, epoch: number, body: string, moment: Moment): Digest {
    return entryHash(head.hash, { run: head.run.id, entry: head.entry + 1, kind, at: moment.iso, epoch, body }, hasher);
  }

  return {
    entry,
    checkpoint(head, prepared, moment) {
      const { columns, epoch } = prepared;
      const number = head.entry + 1;
      const hash = hashOf(head, "checkpoint", epoch, prepared.body, moment);
      const pos = places.next();
      const { ms } = moment;
      log.insert(
        { pos, run: head.no, entry: number, kind: "checkpoint", at: ms, epoch, hash, checkpoint: columns },
        prepared.root,
      );
      places.note(pos, head.no, number, columns.sequence);
      const next = headAfter(head, number, hash, columns.sequence, hash);
      heads.set(next);
      return next;
    },
    outside(head, { kind, body, epoch = 0 }, moment) {
      runs.bump(head.no);
      return entry({ ...head, stamp: head.stamp + 1 }, { kind, body: canonicalJson(body), epoch }, moment);
    },
  };
}

/** Written out: this runs for every entry, and a spread would cost several times as much. */
function headAfter(head: Head, entry: number, hash: Digest, sequence: number, digest: Digest | null): Head {
  const { no, run, stamp, epoch, lease } = head;
  return { no, run, stamp, epoch, lease, entry, hash, sequence, digest };
}
