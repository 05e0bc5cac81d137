import { type Moment, createAppend } from "./append.ts";
import { createBlobFiles } from "./pack/blob-files.ts";
import { createBundler } from "./pack/bundler.ts";
import { integer } from "./columns.ts";
import { checkDurability } from "./driver.ts";
import { createGroupCommit, SETTLED } from "./group-commit.ts";
import type { Handle } from "./handle.ts";
import { endToken } from "./handle-tokens.ts";
import { createHeads } from "./witness/heads.ts";
import { createLog } from "./log.ts";
import { createPackTable } from "./pack/pack-table.ts";
import { createPacks } from "./pack/packs.ts";
import { createPlaces } from "./pack/places.ts";
import { createRuns } from "./runs.ts";
import { createTransactions } from "./transactions.ts";
import { createWitness } from "./witness/witness.ts";
import type { Clock } from "@holdfast/platform/clock";

/** Ties the parts of one connection together: who must forget what when others wrote or a transaction failed. */
export function openHandle(
  params: Pick<Handle, "db" | "layout" | "storeId" | "token" | "identity" | "hasher"> & {
    readonly clock: Clock;
    readonly busyMs: number;
  },
): Handle {
  const { db, layout, hasher } = params;
  const log = createLog(db);
  const places = createPlaces(db, log);
  const runs = createRuns(db);
  const blobs = createBlobFiles({ directory: layout.blobs, hasher });
  const packTable = createPackTable(db, blobs);
  const bundler = createBundler(db);
  const packs = createPacks({ db, table: packTable, onRaw: bundler.note });
  const heads = createHeads({ runs, log, places, hasher, token: params.token });
  const append = createAppend({ log, places, heads, runs, hasher });
  const witness = createWitness({ path: layout.witness, storeId: params.storeId });
  const listeners = new Set<() => void>();
  const generationNow = db.prepare("SELECT value FROM meta WHERE key = 'generation'");
  let generation: number | undefined;
  let durabilityChecked = false;
  let later: NodeJS.Immediate | undefined;

  const transactions = createTransactions({
    db,
    refresh() {
      if (!places.refresh()) return;
      log.forget();
      heads.doubt();
      const current = integer(generationNow.get() ?? {}, "value");
      // A sweep took chunks away: what we remember of them may be gone.
      if (generation !== undefined && current !== generation) packs.forget();
      generation = current;
    },
    onRollback() {
      log.discard();
      log.forget();
      places.forget();
      heads.forget();
      packs.forget();
    },
  });
  const group = createGroupCommit({
    transactions,
    log,
    isDue: () => !durabilityChecked || places.isDue() || packs.isDue(),
    beforeCommit() {
      if (!durabilityChecked) checkDurability(db, layout.directory);
      durabilityChecked = true;
      places.index("due");
      packs.index("due");
    },
    afterCommit(when) {
      const moved = heads.takeMoved();
      const note = (): void => witness.note(moved);
      // Behind the callers' first continuations, so that nobody waits for it, and before anything else. A call that has
      // not returned yet is awaited only afterwards: one hop more.
      void SETTLED.then(when === "after" ? note : () => void SETTLED.then(note));
      for (const listener of listeners) listener();
      if (bundler.isDue()) later ??= setImmediate(bundleLater);
    },
    onDistrust: () => endToken(params.token),
    location: layout.directory,
    busyMs: params.busyMs,
  });

  /** When it fails nothing is lost: what waits is found again by the next one. */
  function bundleLater(): void {
    later = undefined;
    group.submit({ plan: () => {}, apply: () => bundler.bundle("due") }).catch(() => {});
  }

  return {
    db,
    layout,
    storeId: params.storeId,
    token: params.token,
    identity: params.identity,
    hasher,
    now: momentsOf(params.clock),
    log,
    places,
    runs,
    heads,
    append,
    packs,
    packTable,
    blobs,
    bundler,
    stop: () => clearImmediate(later),
    transactions,
    group,
    witness,
    listeners,
  };
}

/** Many commits fall into one millisecond; its text is made once. */
function momentsOf(clock: Clock): () => Moment {
  let last: Moment = { ms: 0, iso: new Date(0).toISOString() };
  return () => {
    const ms = Math.trunc(clock.now());
    if (ms !== last.ms) last = { ms, iso: new Date(ms).toISOString() };
    return last;
  };
}
