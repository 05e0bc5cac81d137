// What the database has acknowledged while a team works, read from its tables and kept here: journals and leases.

import type { TeamScene } from "./scene.ts";

interface SeenEntry {
  readonly run: string;
  readonly entry: number;
  readonly kind: string;
  /** Hex. It covers the entries before. */
  readonly hash: string;
}

interface SeenLease {
  readonly run: string;
  readonly epoch: number;
  readonly host: string;
  readonly pid: number;
}

export interface Journals {
  /** Everything that was ever seen, by `run/entry`. */
  readonly seen: ReadonlyMap<string, SeenEntry>;
  /** An entry that had another hash before. */
  readonly changed: readonly string[];
  /** Reads again. Without the server it changes nothing. */
  read(): void;
  lengthOf(run: string): number;
  areEnded(runs: readonly string[]): boolean;
  leases(): readonly SeenLease[];
}

export function watchJournals({ postgres, schema }: Pick<TeamScene, "postgres" | "schema">): Journals {
  const seen = new Map<string, SeenEntry>();
  const changed: string[] = [];
  const lengths = new Map<string, number>();
  const ended = new Set<string>();
  const rowsOf = (text: string): readonly (readonly string[])[] => {
    try {
      const lines = postgres.sql(text).split("\n");
      return lines.filter((line) => line !== "").map((line) => line.split("|"));
    } catch {
      return [];
    }
  };
  return {
    seen,
    changed,
    read() {
      const text = `SELECT runs.id, entry, kind, encode(hash, 'hex') FROM ${schema}.entries JOIN ${schema}.runs USING (run)`;
      for (const [run = "", entry = "", kind = "", hash = ""] of rowsOf(text)) {
        const key = `${run}/${entry}`;
        const known = seen.get(key);
        if (known !== undefined && known.hash !== hash) changed.push(key);
        if (known === undefined) seen.set(key, { run, entry: Number(entry), kind, hash });
        lengths.set(run, Math.max(lengths.get(run) ?? 0, Number(entry)));
        if (kind === "run.ended") ended.add(run);
      }
    },
    lengthOf: (run) => lengths.get(run) ?? 0,
    areEnded: (runs) => runs.every((run) => ended.has(run)),
    leases: () =>
      rowsOf(`SELECT runs.id, leases.epoch, host, pid FROM ${schema}.leases JOIN ${schema}.runs USING (run)`).map(
        ([run = "", epoch = "", host = "", pid = ""]) => ({ run, epoch: Number(epoch), host, pid: Number(pid) }),
      ),
  };
}
