import type { Log } from "../log.ts";
import type { Places } from "../pack/places.ts";
import type { Runs } from "../runs.ts";
import { birthDigest } from "@holdfast/core/journal";
import { HoldfastError } from "@holdfast/platform/error";
import type { Digest, Hasher } from "@holdfast/core/json";
import type { Lease } from "@holdfast/core/lease";
import { runNotFound } from "@holdfast/core/store";
import type { Run } from "@holdfast/core/run";

/** The end of a run's chain, as the next entry needs it. */
export interface Head {
  readonly no: number;
  readonly run: Run;
  readonly stamp: number;
  readonly epoch: number;
  readonly lease: Lease | null;
  readonly entry: number;
  readonly hash: Digest;
  /** Newest checkpoint; 0 and null while there is none. */
  readonly sequence: number;
  readonly digest: Digest | null;
}

/**
 * Remembers heads between transactions. When others wrote in between, only the head of a run whose lease this very
 * handle holds can still be right: everybody else who writes to that run changes its stamp. The holder itself does not,
 * so to any other handle an unchanged stamp says nothing.
 */
export interface Heads {
  /** RUN_NOT_FOUND. Only inside a transaction, after `doubt` was told that others wrote. */
  of(run: string): Head;
  set(head: Head): void;
  /** Heads set since this was last asked. */
  takeMoved(): readonly Head[];
  /** Other connections wrote: look at the stamps again. */
  doubt(): void;
  forget(): void;
}

interface Known {
  head: Head;
  round: number;
  moved: boolean;
}

export function createHeads(params: {
  readonly runs: Runs;
  readonly log: Log;
  readonly places: Places;
  readonly hasher: Hasher;
  readonly token: string;
}): Heads {
  const { runs, log, places, hasher, token } = params;
  const known = new Map<string, Known>();
  let moved: Known[] = [];
  let round = 0;

  function load(run: string): Head {
    const row = runs.byId(run);
    if (row === undefined) throw runNotFound(run);
    const end = places.lastEntry(row.no);
    const last = end === undefined ? undefined : log.get(end.pos);
    const newest = newestCheckpoint(row.no);
    return {
      no: row.no,
      run: row.run,
      stamp: row.stamp,
      epoch: row.epoch,
      lease: row.lease,
      entry: last?.entry ?? 0,
      hash: last?.hash ?? birthDigest(row.run, hasher),
      ...newest,
    };
  }

  function newestCheckpoint(no: number): Pick<Head, "sequence" | "digest"> {
    for (const { number: sequence, pos } of places.marksDown(no)) {
      const row = log.get(pos);
      if (row === undefined) throw missingRow(sequence);
      return { sequence, digest: row.hash };
    }
    return { sequence: 0, digest: null };
  }

  return {
    of(run) {
      const found = known.get(run);
      if (found !== undefined) {
        if (found.round === round) return found.head;
        const ours = found.head.lease?.owner.token === token;
        if (ours && runs.stamp(found.head.no) === found.head.stamp) {
          found.round = round;
          return found.head;
        }
      }
      const head = load(run);
      known.set(run, { head, round, moved: false });
      return head;
    },
    set(head) {
      let found = known.get(head.run.id);
      if (found === undefined) {
        found = { head, round, moved: false };
        known.set(head.run.id, found);
      }
      found.head = head;
      found.round = round;
      if (found.moved) return;
      found.moved = true;
      moved.push(found);
    },
    takeMoved() {
      const heads = moved.map((found) => found.head);
      for (const found of moved) found.moved = false;
      moved = [];
      return heads;
    },
    doubt() {
      round += 1;
    },
    forget() {
      known.clear();
      moved = [];
    },
  };
}

function missingRow(sequence: number): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The log has no row for checkpoint ${sequence} although its index has`,
    hint: "Run `holdfast verify` to see what is still whole.",
    data: { sequence },
  });
}
