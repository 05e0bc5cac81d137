// Recomputes everything from the journal and names what is wrong. Reads in short transactions, so writers continue.

import { HoldfastError } from "@holdfast/platform/error";
import { type JournalEntry, birthDigest, entryHash } from "../journal.ts";
import { type Digest, sha256 } from "../json.ts";
import type { Run } from "../run.ts";
import { type Problem, type VerifyEvent, type VerifyParams, runNotFound } from "../store.ts";
import type { Driver, ReadTransaction, Row } from "./driver.ts";
import { type Fold, addToFold, newFold } from "./journal-fold.ts";
import { contradiction } from "./read.ts";
import {
  EFFECT_COLUMNS,
  ENTRY_COLUMNS,
  type EntryRow,
  bodyText,
  damagedSignals,
  effectOf,
  entryRow,
  journalEntry,
  loadChunks,
  ownerRecord,
  parseBirth,
  parseCheckpointBody,
  parseState,
  readLease,
} from "./records.ts";
import { bytes, checkedMeta, digest, digestOrNull, integer, isoTime, text, textOrNull } from "./schema.ts";
import { type Reference, parseChunk, parseJson, referencesIn, unpackText } from "../chunks.ts";
import { factsOf } from "./write.ts";

const PAGE = 128;
/** More than a reader would look at; the summary counts no further. */
const MOST_PROBLEMS = 1000;

export async function* verify(
  driver: Driver,
  params: VerifyParams & { readonly storeId: string; readonly checkOpen: () => void },
): AsyncGenerator<VerifyEvent> {
  const { scope = "all" } = params;
  const totals = { runs: 0, entries: 0, checkpoints: 0, chunks: 0 };
  let problems = 0;

  function checkGoing(): void {
    params.checkOpen();
    if (params.signal?.aborted === true)
      throw new HoldfastError({ code: "INTERRUPTED", message: "Verification was stopped", hint: "Run it again." });
  }

  checkGoing();
  const found = await runNumbers(driver, params.run);
  const ofStore = [...found.problems];
  if (params.run === undefined && scope === "all") {
    const chunks = await verifyChunks(driver, checkGoing);
    totals.chunks = chunks.count;
    ofStore.push(...chunks.problems, ...(await verifyTables(driver)), ...(await verifyMark(driver, params.storeId)));
  }
  for (const problem of ofStore) {
    problems += 1;
    yield { kind: "problem", problem };
  }
  const verified = new Set<string>();
  for (const number of found.numbers) {
    let walk = await beginWalk(driver, number, scope, verified);
    for (let more = true; more && walk !== null && !("problem" in walk);) {
      await new Promise((resolve) => setImmediate(resolve));
      checkGoing();
      try {
        more = await nextPage(driver, walk);
      } catch (error) {
        if (!(error instanceof Moved)) throw error;
        walk = await beginWalk(driver, number, scope, verified);
        continue;
      }
      if (more) yield { kind: "progress", run: walk.run.id, checked: walk.entry };
    }
    if (walk === null) continue;
    if ("problem" in walk) {
      problems += 1;
      yield { kind: "problem", problem: walk.problem };
      continue;
    }
    totals.runs += 1;
    totals.entries += walk.entry;
    totals.checkpoints += walk.checkpoints;
    for (const one of walk.found) {
      problems += 1;
      const { trustedTo, newestIntact } = walk;
      yield {
        kind: "problem",
        problem: { ...one, code: "STORE_CORRUPT", run: walk.run.id, trustedTo: trustedTo ?? walk.entry, newestIntact },
      };
    }
  }
  if (params.run !== undefined || scope === "journal") totals.chunks = verified.size;
  yield { kind: "summary", ok: problems === 0, ...totals, problems };
}

function storeProblem(code: Problem["code"], what: string): Problem {
  return { code, run: null, entry: null, sequence: null, what, trustedTo: null, newestIntact: null };
}

interface RunNumbers {
  readonly numbers: readonly number[];
  readonly problems: readonly Problem[];
}

/** Those that can be read, from both ends: what a damaged page hides is reported with the structure of the database. */
async function runNumbers(driver: Driver, run: string | undefined): Promise<RunNumbers> {
  if (run !== undefined) return runNumber(driver, run);
  const found = new Set<number>();
  for (const order of ["ASC", "DESC"]) {
    try {
      for (let last: number | undefined; ;) {
        const edge = order === "ASC" ? (last ?? 0) : (last ?? Number.MAX_SAFE_INTEGER);
        const where = order === "ASC" ? "run > ?" : "run < ?";
        const sql = `SELECT run FROM runs WHERE ${where} ORDER BY run ${order} LIMIT 1`;
        const [row] = await driver.read((tx) => tx.all(sql, [edge]));
        if (row === undefined) return { numbers: [...found].toSorted((a, b) => a - b), problems: [] };
        last = integer(row, "run");
        if (found.has(last) && order === "DESC") break;
        found.add(last);
      }
    } catch (error) {
      if (order === "ASC") continue;
      const problem = storeProblem("STORE_CORRUPT", `Some runs cannot be read: ${driver.toError(error).message}`);
      return { numbers: [...found].toSorted((a, b) => a - b), problems: [problem] };
    }
  }
  const problem = storeProblem("STORE_CORRUPT", "The table of runs cannot be read in order");
  return { numbers: [...found].toSorted((a, b) => a - b), problems: [problem] };
}

async function runNumber(driver: Driver, run: string): Promise<RunNumbers> {
  try {
    const [row] = await driver.read((tx) => tx.all("SELECT run FROM runs WHERE id = ?", [run]));
    if (row === undefined) throw runNotFound(run);
    return { numbers: [integer(row, "run")], problems: [] };
  } catch (error) {
    const known = driver.toError(error);
    if (known.code !== "STORE_CORRUPT") throw known;
    return {
      numbers: [],
      problems: [storeProblem("STORE_CORRUPT", `The run ${run} cannot be read: ${known.message}`)],
    };
  }
}

/** What does not belong to one run: structure, facts, and rows whose run or entry is not there. */
async function verifyTables(driver: Driver): Promise<readonly Problem[]> {
  const checks: readonly (() => Promise<readonly string[]>)[] = [
    () => driver.inspect(),
    async () => {
      for (const row of await driver.read((tx) => tx.all("SELECT key, value, checksum FROM meta"))) checkedMeta(row);
      return [];
    },
    () => driver.read(damagedSignals),
    ...["entries", "checkpoints", "tombstones", "effects", "leases", "tags", "signals"].map((table) => async () => {
      const sql = `SELECT count(*) AS n FROM ${table} t LEFT JOIN runs r ON r.run = t.run WHERE r.run IS NULL`;
      const [row = {}] = await driver.read((tx) => tx.all(sql));
      const count = integer(row, "n");
      return count === 0 ? [] : [`The table ${table} has ${count} rows of runs that are not there`];
    }),
  ];
  const problems: Problem[] = [];
  for (const check of checks) {
    for (const what of await attempt(driver, check)) problems.push(storeProblem("STORE_CORRUPT", what));
  }
  return problems;
}

/** Also those that nothing needs at the moment: the next save may rely on them. */
async function verifyChunks(
  driver: Driver,
  checkGoing: () => void,
): Promise<{ readonly count: number; readonly problems: readonly Problem[] }> {
  const problems: Problem[] = [];
  let count = 0;
  try {
    for (let after = 0; ;) {
      checkGoing();
      const page = after;
      const rows = await driver.read((tx) =>
        tx.all("SELECT place, digest, bytes FROM chunks WHERE place > ? ORDER BY place LIMIT ?", [page, PAGE]),
      );
      const last = rows.at(-1);
      if (last === undefined) break;
      after = integer(last, "place");
      for (const row of rows) {
        count += 1;
        const [what] = await attempt(driver, async () => {
          parseChunk(unpackText(bytes(row, "bytes")), Buffer.from(bytes(row, "digest")).toString("base64url"));
          return [];
        });
        if (what !== undefined && problems.length < MOST_PROBLEMS)
          problems.push(storeProblem("STORE_CORRUPT", `The table of chunks is damaged: ${what}`));
      }
    }
  } catch (error) {
    const known = driver.toError(error);
    if (known.code === "INTERRUPTED" || known.code === "USAGE") throw known;
    problems.push(storeProblem("STORE_CORRUPT", `The table of chunks cannot be read: ${known.message}`));
  }
  return { count, problems };
}

async function verifyMark(driver: Driver, storeId: string): Promise<readonly Problem[]> {
  const mark = driver.highWater;
  if (mark === null) return [];
  const content = mark.read();
  switch (content.kind) {
    case "absent":
    case "blank":
      return [
        storeProblem(
          "STORE_MISSING",
          `The high-water mark ${mark.path} ${content.kind === "absent" ? "is gone" : "was emptied"}, so a cut database would not be noticed`,
        ),
      ];
    case "cut":
      return cutRecords(driver, `The high-water mark ${mark.path} was cut to ${content.bytes} bytes`);
    case "unreadable":
      return [
        storeProblem(
          "STORE_CORRUPT",
          `The high-water mark cannot be read: ${content.why}; remove it, and the next commit writes a new one`,
        ),
      ];
    case "read": {
      const problems = content.damaged.map((run) =>
        storeProblem("STORE_CORRUPT", `The high-water mark's record of run number ${run} is damaged`),
      );
      if (content.storeId !== storeId)
        problems.push(storeProblem("STORE_CORRUPT", "The high-water mark belongs to another store"));
      for (const head of content.heads) {
        try {
          const cut = await driver.read((tx) => contradiction(tx, head));
          if (cut !== null) problems.push(storeProblem("STORE_CUT", cut.why));
        } catch (error) {
          problems.push(storeProblem("STORE_CORRUPT", driver.toError(error).message));
        }
      }
      return problems;
    }
  }
}

/** Without its record nothing says how far a run had come: each is named, with the newest checkpoint that the database has. */
async function cutRecords(driver: Driver, how: string): Promise<readonly Problem[]> {
  const what = `${how}: whether the run went further than this is not known`;
  const rows = await driver.read((tx) => tx.all("SELECT id, entries, sequence FROM runs ORDER BY run"));
  const problems = rows.map((row): Problem => {
    const sequence = integer(row, "sequence");
    return {
      code: "HIGH_WATER_CUT",
      run: text(row, "id"),
      entry: integer(row, "entries"),
      sequence: sequence === 0 ? null : sequence,
      what,
      trustedTo: null,
      newestIntact: null,
    };
  });
  return problems.length > 0 ? problems : [storeProblem("STORE_CORRUPT", what)];
}

/** One run from its birth record to its last entry. */
interface Walk {
  readonly number: number;
  readonly run: Run;
  readonly scope: "all" | "journal";
  /** Chunks whose content and references are proven, with the height of the reference. */
  readonly verified: Set<string>;
  readonly fold: Fold;
  readonly found: Pick<Problem, "entry" | "sequence" | "what">[];
  entry: number;
  hash: Digest;
  /** Last entry before the first break of the chain. */
  trustedTo: number | null;
  newestIntact: number | null;
  checkpoints: number;
}

async function beginWalk(
  driver: Driver,
  number: number,
  scope: "all" | "journal",
  verified: Set<string>,
): Promise<Walk | { readonly problem: Problem } | null> {
  try {
    const [row] = await driver.read((tx) => tx.all("SELECT birth, id, workflow FROM runs WHERE run = ?", [number]));
    if (row === undefined) return null;
    const run = parseBirth(text(row, "birth"));
    const walk: Walk = {
      number,
      run,
      scope,
      verified,
      fold: newFold(),
      found: [],
      entry: 0,
      hash: birthDigest(run),
      trustedTo: null,
      newestIntact: null,
      checkpoints: 0,
    };
    if (text(row, "id") !== run.id || text(row, "workflow") !== run.workflow)
      blame(walk, { what: "Its id or workflow differs from its birth record", about: "table" });
    return walk;
  } catch (error) {
    return { problem: storeProblem("STORE_CORRUPT", `Run number ${number}: ${driver.toError(error).message}`) };
  }
}

/** false at the end, where the tables are compared in the transaction that saw the end, so that no writer comes between. */
async function nextPage(driver: Driver, walk: Walk): Promise<boolean> {
  let begun = false;
  try {
    return await driver.read(async (tx) => {
      if (begun) throw new Moved();
      begun = true;
      const rows = await readPage(driver, tx, walk);
      for (const row of rows) await checkEntry(driver, tx, walk, row);
      if (rows.length > 0 && walk.found.length < MOST_PROBLEMS) return true;
      if (walk.entry === 0) blame(walk, { what: "It has no journal" });
      for (const what of await attempt(driver, () => compareTables(tx, walk))) blame(walk, { what, about: "table" });
      return false;
    });
  } catch (error) {
    if (error instanceof Moved) throw error;
    blame(walk, { entry: walk.entry + 1, what: driver.toError(error).message });
    return false;
  }
}

/** The files were replaced under a reader in the middle of a page: the run is walked again from its beginning. */
class Moved extends Error {}

const JOURNAL = `SELECT ${ENTRY_COLUMNS}, step, started, summary, size FROM entries WHERE run = ?`;

/** Where a page cannot be read as a whole, its entries are read one by one. */
async function readPage(driver: Driver, tx: ReadTransaction, walk: Walk): Promise<readonly Row[]> {
  const { number, entry } = walk;
  try {
    return await tx.all(`${JOURNAL} AND entry > ? ORDER BY entry LIMIT ?`, [number, entry, PAGE]);
  } catch {
    const rows: Row[] = [];
    for (let next = entry + 1; next <= entry + PAGE; next++) {
      const [what] = await attempt(driver, async () => {
        rows.push(...(await tx.all(`${JOURNAL} AND entry = ?`, [number, next])));
        return [];
      });
      if (what !== undefined) blame(walk, { entry: next, what });
    }
    return rows;
  }
}

/** After a break the walk continues from the stored hash, so that each damaged entry is named once and those after it are not blamed for it. */
async function checkEntry(driver: Driver, tx: ReadTransaction, walk: Walk, row: Row): Promise<void> {
  let parsed: EntryRow;
  try {
    parsed = entryRow(row);
  } catch (error) {
    walk.entry += 1;
    blame(walk, { entry: walk.entry, what: driver.toError(error).message });
    return;
  }
  while (walk.entry + 1 < parsed.entry && walk.found.length < MOST_PROBLEMS) {
    walk.entry += 1;
    blame(walk, { entry: walk.entry, what: `Journal entry ${walk.entry} is gone` });
  }
  walk.entry = parsed.entry;
  const { entry, kind, at, epoch } = parsed;
  const previous = walk.hash;
  walk.hash = parsed.hash;
  let isLinked = false;
  const problems = await attempt(driver, async () => {
    const body = await bodyText(tx, parsed);
    isLinked = entryHash(previous, { run: walk.run.id, entry, kind, at, epoch, body }) === parsed.hash;
    if (!isLinked)
      return [`The chain breaks at entry ${entry}: its hash does not follow from its content and the one before`];
    if (kind === "checkpoint") return [];
    const journal = await journalEntry(tx, walk.run.id, parsed);
    addToFold(walk.fold, journal);
    return checkFacts(row, journal, body);
  });
  for (const what of problems) blame(walk, { entry, what });
  if (kind === "checkpoint") await checkCheckpoint(driver, tx, walk, { row, parsed, isLinked });
}

function checkFacts(row: Row, entry: JournalEntry, body: string): readonly string[] {
  const facts = factsOf(entry.body);
  const same =
    row["step"] === facts.step &&
    row["started"] === facts.started &&
    row["summary"] === facts.summary &&
    row["size"] === Buffer.byteLength(body);
  return same ? [] : [`The columns of entry ${entry.entry} differ from its body`];
}

/**
 * Damage to the planes breaks no chain: it is reported of the checkpoint, and the entries after it stay trusted. But a checkpoint that does not
 * follow from the entry before cannot be proven, and is not offered.
 */
async function checkCheckpoint(
  driver: Driver,
  tx: ReadTransaction,
  walk: Walk,
  { row, parsed, isLinked }: { readonly row: Row; readonly parsed: EntryRow; readonly isLinked: boolean },
): Promise<void> {
  const { entry } = parsed;
  let sequence: number | null = null;
  const problems = await attempt(driver, async () => {
    const { head, parent } = parseCheckpointBody(parsed.body ?? "", `of entry ${entry}`);
    const own = head.sequence;
    sequence = own;
    const { fold } = walk;
    const wrong: string[] = [];
    if (own !== fold.sequence + 1) wrong.push(`Checkpoint ${own} follows ${fold.sequence}`);
    if (fold.sequence > 0 && parent?.digest !== fold.digest)
      wrong.push(`Checkpoint ${own} does not name its parent's digest`);
    fold.sequence = own;
    fold.digest = parsed.hash;
    const same = row["step"] === head.stage && row["summary"] === head.name && row["size"] === head.logical;
    if (!same) wrong.push(`The columns of checkpoint ${own} differ from its record`);
    const key = [walk.number, own];
    const [kept] = await tx.all(
      "SELECT entry, cause, stage, quarantined FROM checkpoints WHERE run = ? AND sequence = ?",
      key,
    );
    if (kept === undefined) {
      const [stone] = await tx.all("SELECT entry FROM tombstones WHERE run = ? AND sequence = ?", key);
      if (stone === undefined) wrong.push(`Checkpoint ${own} is gone without a tombstone`);
      else if (integer(stone, "entry") !== entry) wrong.push(`The tombstone of checkpoint ${own} names another entry`);
      else if (parsed.content !== null)
        wrong.push(`The planes of checkpoint ${own} are there, although it was dropped`);
      return wrong;
    }
    walk.checkpoints += 1;
    const agrees = integer(kept, "entry") === entry && kept["cause"] === head.trigger && kept["stage"] === head.stage;
    if (!agrees) wrong.push(`The row of checkpoint ${own} differs from its record`);
    if (walk.scope === "journal" || wrong.length > 0) return wrong;
    if (parsed.content === null) return [`The planes of checkpoint ${own} are gone without a tombstone`];
    const root = unpackText(parsed.content);
    if (sha256(root) !== head.root) return [`The planes of checkpoint ${own} do not give their digest`];
    await verifyReferences(tx, root, walk.verified);
    if (isLinked && kept["quarantined"] === null) walk.newestIntact = own;
    return [];
  });
  for (const what of problems) blame(walk, { entry, sequence, what });
}

async function verifyReferences(tx: ReadTransaction, root: string, verified: Set<string>): Promise<void> {
  const nameOf = ({ digest: own, height }: Reference): string => `${own} ${height}`;
  const seen: string[] = [];
  let wanted = referencesIn(parseJson(root), 0);
  const done = new Set<string>();
  while (wanted.length > 0) {
    const fresh = wanted.filter((one) => !verified.has(nameOf(one)) && !done.has(nameOf(one)));
    const texts = await loadChunks(tx, [...new Set(fresh.map((one) => one.digest))]);
    wanted = fresh.flatMap((one) => {
      const chunk = texts.get(one.digest);
      if (chunk === undefined)
        throw new HoldfastError({ code: "STORE_CORRUPT", message: `The chunk ${one.digest} is gone` });
      const references = referencesIn(parseChunk(chunk, one.digest), one.height);
      done.add(nameOf(one));
      seen.push(nameOf(one));
      return references;
    });
  }
  // Only now: a chunk counts as proven together with all that it needs.
  for (const name of seen) verified.add(name);
}

interface Blame {
  readonly entry?: number;
  readonly sequence?: number | null;
  readonly what: string;
  /** A wrong table does not make the journal less trustworthy. */
  readonly about?: "table";
}

function blame(walk: Walk, { entry, sequence = null, what, about }: Blame): void {
  if (about === undefined && sequence === null) walk.trustedTo ??= Math.max((entry ?? 1) - 1, 0);
  if (walk.found.length < MOST_PROBLEMS) walk.found.push({ entry: entry ?? null, sequence, what });
}

async function attempt(driver: Driver, check: () => Promise<readonly string[]>): Promise<readonly string[]> {
  try {
    return await check();
  } catch (error) {
    return [driver.toError(error).message];
  }
}

async function compareTables(tx: ReadTransaction, walk: Walk): Promise<readonly string[]> {
  const { fold, number } = walk;
  const problems: string[] = [];
  const rows = (sql: string): Promise<readonly Row[]> => tx.all(sql, [number]);
  const tags = await rows("SELECT name, sequence FROM tags WHERE run = ?");
  compare("The tags", new Map(tags.map((row) => [text(row, "name"), integer(row, "sequence")])), fold.tags);
  const effects = (await rows(`SELECT ${EFFECT_COLUMNS} FROM effects WHERE run = ?`)).map((row) =>
    effectOf(row, walk.run.id),
  );
  compare("The ledger of effects", new Map(effects.map((effect) => [effect.key, effect])), fold.effects);
  const stones = (await rows("SELECT sequence, dropped, why FROM tombstones WHERE run = ?")).map(
    (row) => [integer(row, "sequence"), { at: isoTime(row, "dropped"), why: text(row, "why") }] as const,
  );
  compare("The tombstones", new Map(stones), fold.dropped);
  const damaged = await rows("SELECT sequence, quarantined FROM checkpoints WHERE run = ? AND quarantined IS NOT NULL");
  const quarantined = damaged.map((row) => [integer(row, "sequence"), integer(row, "quarantined")] as const);
  compare("The quarantine", new Map(quarantined), fold.quarantined);
  const [counted = {}] = await rows("SELECT count(*) AS n FROM checkpoints WHERE run = ?");
  const [row] = await rows("SELECT epoch, entries, head, sequence, digest, checkpoints, state FROM runs WHERE run = ?");
  if (row === undefined) return [...problems, "Its row is gone"];
  const expect = (what: string, value: unknown, due: unknown): void => {
    if (!sameJson(value, due)) problems.push(what);
  };
  const kept = fold.sequence - fold.dropped.size;
  expect(`The table of checkpoints does not hold ${kept} of them`, integer(counted, "n"), kept);
  expect("The run's count of checkpoints differs from its journal", integer(row, "checkpoints"), kept);
  expect("The run's newest checkpoint differs from its journal", integer(row, "sequence"), fold.sequence);
  expect(
    "The digest of the run's newest checkpoint differs from its journal",
    digestOrNull(row, "digest"),
    fold.digest,
  );
  expect("The run's count of entries differs from its journal", integer(row, "entries"), walk.entry);
  expect("The run's head differs from the hash of its last entry", digest(row, "head"), walk.hash);
  expect(`The run's epoch is not ${fold.epoch}, as its journal says`, integer(row, "epoch"), fold.epoch);
  expect("The run's state differs from its journal", parseState(textOrNull(row, "state"), walk.run.id), fold.run);
  const lease = await readLease(tx, { number, id: walk.run.id });
  expect("The run's lease differs from its journal", lease === null ? null : ownerRecord(lease), fold.lease);
  if (lease !== null) expect("The epoch of the run's lease differs from its journal", lease.epoch, fold.epoch);
  return problems;

  function compare<K, V>(what: string, table: ReadonlyMap<K, V>, folded: ReadonlyMap<K, V>): void {
    for (const [key, value] of folded)
      if (!sameJson(table.get(key), value)) problems.push(`${what} differ from the journal at ${String(key)}`);
    for (const key of table.keys())
      if (!folded.has(key)) problems.push(`${what} have ${String(key)}, which the journal has not`);
  }
}

/** Both sides are plain data; the order of keys is all that may differ. */
function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  const left = Object.entries(a);
  const right = new Map<string, unknown>(Object.entries(b));
  return left.length === right.size && left.every(([key, value]) => right.has(key) && sameJson(value, right.get(key)));
}
