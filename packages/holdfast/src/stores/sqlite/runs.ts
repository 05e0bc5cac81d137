import type { DatabaseSync } from "node:sqlite";
import { type Row, integer, text, textOrNull } from "./columns.ts";
import { HoldfastError } from "@holdfast/platform/error";
import { deepFreeze } from "@holdfast/core/json";
import type { Lease, LeaseOwner } from "@holdfast/core/lease";
import type { Run } from "@holdfast/core/run";
import { NEW_RUN, type RunFold, parseRunFold } from "@holdfast/core/status";

/** A run's row: its birth, and what changes seldom. What a save changes is not here, so that a save need not touch it. */
export interface RunRow {
  readonly no: number;
  /** Changes with everything written to the run by other means than its lease: whoever remembers the run's head must look again. */
  readonly stamp: number;
  /** Of the newest lease, held or not. */
  readonly epoch: number;
  readonly lease: Lease | null;
  /** JSON of the run's fold; null while nothing in its journal speaks of the run as a whole. */
  readonly fold: string | null;
  /** How many of its checkpoints were dropped. */
  readonly dropped: number;
  readonly run: Run;
}

export interface Runs {
  insert(run: Run, birth: string): number;
  byId(id: string): RunRow | undefined;
  byNumber(no: number): RunRow | undefined;
  /** Newest first, below `before`. */
  page(before: number, limit: number): readonly RunRow[];
  /** Those that are held, of all runs. */
  leases(): readonly Lease[];
  count(): number;
  lastNumber(): number;
  stamp(no: number): number | undefined;
  bump(no: number): void;
  setLease(no: number, lease: Lease | null): void;
  setHeartbeat(no: number, at: number): void;
  setFold(no: number, fold: RunFold): void;
  addDropped(no: number, count: number): void;
}

export function createRuns(db: DatabaseSync): Runs {
  const columns = "no, stamp, epoch, heartbeat, dropped, lease, fold, birth";
  const insert = db.prepare("INSERT INTO runs (stamp, epoch, heartbeat, dropped, id, birth) VALUES (0, 0, 0, 0, ?, ?)");
  const byId = db.prepare(`SELECT ${columns} FROM runs WHERE id = ?`);
  const byNumber = db.prepare(`SELECT ${columns} FROM runs WHERE no = ?`);
  const page = db.prepare(`SELECT ${columns} FROM runs WHERE no < ? ORDER BY no DESC LIMIT ?`);
  const leases = db.prepare(`SELECT ${columns} FROM runs WHERE lease IS NOT NULL`);
  const count = db.prepare("SELECT count(*) AS n FROM runs");
  // By itself: with the count it would read every run.
  const last = db.prepare("SELECT coalesce(max(no), 0) AS last FROM runs");
  const stamp = db.prepare("SELECT stamp FROM runs WHERE no = ?");
  const bump = db.prepare("UPDATE runs SET stamp = stamp + 1 WHERE no = ?");
  const setLease = db.prepare("UPDATE runs SET lease = ?, epoch = ?, heartbeat = ? WHERE no = ?");
  const clearLease = db.prepare("UPDATE runs SET lease = NULL WHERE no = ?");
  const setHeartbeat = db.prepare("UPDATE runs SET heartbeat = ? WHERE no = ?");
  const setFold = db.prepare("UPDATE runs SET fold = ? WHERE no = ?");
  const addDropped = db.prepare("UPDATE runs SET dropped = dropped + ? WHERE no = ?");
  const one = (row: Row | undefined): RunRow | undefined => (row === undefined ? undefined : runRow(row));
  return {
    insert: (run, birth) => Number(insert.run(run.id, birth).lastInsertRowid),
    byId: (id) => one(byId.get(id)),
    byNumber: (no) => one(byNumber.get(no)),
    page: (before, limit) => page.all(before, limit).map(runRow),
    leases: () =>
      leases.all().flatMap((row) => {
        const { lease } = runRow(row);
        return lease === null ? [] : [lease];
      }),
    count: () => integer(count.get() ?? {}, "n"),
    lastNumber: () => integer(last.get() ?? {}, "last"),
    stamp(no) {
      const row = stamp.get(no);
      return row === undefined ? undefined : integer(row, "stamp");
    },
    bump: (no) => void bump.run(no),
    setLease(no, lease) {
      if (lease === null) clearLease.run(no);
      else
        setLease.run(
          JSON.stringify({ owner: lease.owner, takenAt: lease.takenAt, slot: lease.slot }),
          lease.epoch,
          Date.parse(lease.heartbeatAt),
          no,
        );
    },
    setHeartbeat: (no, at) => void setHeartbeat.run(at, no),
    setFold: (no, fold) => void setFold.run(JSON.stringify(fold), no),
    addDropped: (no, n) => void addDropped.run(n, no),
  };
}

/** Parsed only where it is asked for: a damaged fold must not keep the run itself from being read. */
export function foldOf(row: Pick<RunRow, "run" | "fold">): RunFold {
  if (row.fold === null) return NEW_RUN;
  return parseRunFold(parse(row.fold, "state"), `The state of run ${row.run.id}`);
}

function runRow(row: Row): RunRow {
  const run = parseBirth(text(row, "birth"));
  const epoch = integer(row, "epoch");
  const held = textOrNull(row, "lease");
  return {
    no: integer(row, "no"),
    stamp: integer(row, "stamp"),
    epoch,
    lease:
      held === null
        ? null
        : parseLease(held, { run: run.id, epoch, heartbeatAt: new Date(integer(row, "heartbeat")).toISOString() }),
    fold: textOrNull(row, "fold"),
    dropped: integer(row, "dropped"),
    run,
  };
}

function parseBirth(json: string): Run {
  const value: unknown = parse(json, "birth record");
  if (isBirth(value)) return deepFreeze(value);
  throw damaged("birth record");
}

/** The chain begins with the digest of this record, so a shape check is enough here; verify proves the content. */
function isBirth(value: unknown): value is Run {
  return (
    isRecord(value) &&
    typeof value["id"] === "string" &&
    typeof value["createdAt"] === "string" &&
    typeof value["workflow"] === "string" &&
    isRecord(value["work"]) &&
    isRecord(value["labels"]) &&
    "forkedFrom" in value
  );
}

function parseLease(json: string, rest: Pick<Lease, "run" | "epoch" | "heartbeatAt">): Lease {
  const value: unknown = parse(json, "lease");
  if (!isRecord(value) || typeof value["takenAt"] !== "string" || !isOwner(value["owner"])) throw damaged("lease");
  const lease = { ...rest, owner: value["owner"], takenAt: value["takenAt"] };
  const { slot } = value;
  return deepFreeze(slot === "working" || slot === "waiting" ? { ...lease, slot } : lease);
}

function isOwner(value: unknown): value is LeaseOwner {
  return (
    isRecord(value) &&
    typeof value["token"] === "string" &&
    typeof value["host"] === "string" &&
    typeof value["pid"] === "number"
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parse(json: string, what: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw damaged(what);
  }
}

function damaged(what: string): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `A run's ${what} is damaged`,
    hint: "Run `holdfast verify` to see what is still whole.",
  });
}
