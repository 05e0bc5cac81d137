import { copyFileSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import { collect, leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { samplePause } from "@holdfast/testing/store-contract/signals";
import type { Store, VerifyEvent } from "../store.ts";
import { openSqliteStore } from "./open.ts";
import { layoutOf } from "./sqlite-files.ts";

const PAGE = 4096;
const SAVES = 300;
const root = mkdtempSync(join(tmpdir(), "holdfast-damage-"));
const whole = join(root, "whole");
const copy = join(root, "copy");
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Long enough that the indexes are more than one page, with a little of everything in it, and nothing left in the log. */
beforeAll(async () => {
  const store = await openSqliteStore({ directory: whole });
  const lease = await leasedRun(store);
  const other = await leasedRun(store, "other");
  await Promise.all(
    Array.from({ length: SAVES }, async (_, i) => {
      await store.commit({ lease, entries: [{ kind: "note", body: { text: `before ${i + 1}` } }] });
      await save(store, lease, { values: { n: i + 1, text: `${i} `.repeat(100) } });
    }),
  );
  await save(store, other, { values: { n: 1 } });
  const intent = { key: "k", kind: "push", target: "t", payload: "a".repeat(64), detail: {} };
  await store.commit({ lease, entries: [{ kind: "effect.intended", body: intent }] });
  await store.tag({ run: "sample", sequence: 2, name: "t" });
  await store.drop({ run: "sample", drops: [{ sequence: 1, why: "x" }] });
  await store.quarantine({ run: "sample", sequences: [5], reason: "x" });
  await store.setMeta("fact", "value");
  await store.putSignal(samplePause);
  await store.close();
});

test("with any page zeroed: only HoldfastErrors, verify completes, and no damaged data is shown as intact", async () => {
  const pages = readFileSync(layoutOf(whole).database).length / PAGE;
  // The first ones are the roots of the tables, one each; behind them every tenth of the leaves will do.
  const chosen = Array.from({ length: pages }, (_, page) => page).filter((page) => page < 18 || page % 10 === 0);
  let examined = 0;
  for (const page of chosen) {
    const store = await openDamaged(page);
    if (store === undefined) continue;
    try {
      await examine(store, `page ${page + 1} of ${pages}`);
      examined += 1;
    } finally {
      await store.close();
    }
  }
  // Elsewhere the store was refused when it was opened.
  expect(examined).toBeGreaterThan(chosen.length / 2);
});

test("a state that differs from the journal is reported", async () => {
  const problems = await problemsAfter(
    "UPDATE runs SET state = ?",
    '{"state":{"kind":"done","at":"x"},"unfinishedRestore":null}',
  );
  expect(problems).toEqual(["The run's state differs from its journal", "The run's state differs from its journal"]);
  expect((await problemsAfter("UPDATE runs SET state = ? WHERE run = 2", "{"))[0]).toMatch(
    /state of run other is damaged/,
  );
});

async function openDamaged(page: number): Promise<Store | undefined> {
  cpSync(whole, copy, { recursive: true });
  const { database } = layoutOf(copy);
  const bytes = readFileSync(layoutOf(whole).database);
  bytes.fill(0, page * PAGE, (page + 1) * PAGE);
  writeFileSync(database, bytes);
  try {
    return await openSqliteStore({ directory: copy });
  } catch (error) {
    expect(error).toBeInstanceOf(HoldfastError);
    expect(error).toMatchObject({ code: expect.stringMatching(/^STORE_/) });
    return undefined;
  }
}

async function examine(store: Store, where: string): Promise<void> {
  const events: VerifyEvent[] = await collect(store.verify());
  const summary = events.at(-1);
  if (summary?.kind !== "summary") throw new Error(`no summary for ${where}`);
  const problems = events.flatMap((event) => (event.kind === "problem" ? [event.problem] : []));
  expect(summary, where).toMatchObject({ ok: problems.length === 0, problems: problems.length });
  const ofRun = await ours(collect(store.verify({ run: "sample" })), where);
  if (ofRun !== undefined) expect(ofRun.at(-1)?.kind, where).toBe("summary");
  else expect(problems.length, where).toBeGreaterThan(0);
  const read = new Set<number>();
  for (let sequence = 2; sequence <= SAVES; sequence++) {
    const found = await ours(store.getCheckpoint({ run: "sample", sequence }), where);
    if (found === undefined) continue;
    read.add(sequence);
    expect(found.planes.context.values["n"], where).toBe(sequence);
  }
  if (read.size < SAVES - 1) expect(summary.ok, where).toBe(false);
  const reads: readonly (() => Promise<unknown>)[] = [
    () => store.getRun("sample"),
    () => store.listRuns(),
    () => store.getLease("sample"),
    () => store.latest("sample"),
    () => store.listCheckpoints({ run: "sample" }),
    () => store.listEffects("sample"),
    () => store.listSignals("sample"),
    () => store.listTombstones("sample"),
    () => store.stats(),
    () => store.getMeta("fact"),
    () => store.sweep({ dryRun: true }),
    () => collect(store.readJournal({ run: "sample" })),
    () => firstOf(store, { run: "sample" }),
    () => firstOf(store, {}),
  ];
  for (const one of reads) await ours(one(), where);
  // What a damaged table hides is not known, so nothing of the run is shown.
  if (read.size === 0) return;
  for (const { run, newestIntact } of problems)
    if (run === "sample" && newestIntact !== null) expect([...read], where).toContain(newestIntact);
}

/** Its result, or undefined when it was refused; any other error fails the test. */
async function ours<T>(work: Promise<T>, where: string): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    expect(error, `${where}: ${String(error)}`).toBeInstanceOf(HoldfastError);
    expect(error, where).not.toMatchObject({ code: "INTERNAL" });
    return undefined;
  }
}

async function firstOf(store: Store, query: { readonly run?: string }): Promise<void> {
  const abort = new AbortController();
  for await (const _ of store.watch({ ...query, after: 0, signal: abort.signal })) abort.abort();
}

async function problemsAfter(sql: string, value: string): Promise<readonly string[]> {
  cpSync(whole, copy, { recursive: true });
  copyFileSync(layoutOf(whole).database, layoutOf(copy).database);
  const db = new DatabaseSync(layoutOf(copy).database);
  db.prepare(sql).run(value);
  db.close();
  const store = await openSqliteStore({ directory: copy });
  try {
    const events: VerifyEvent[] = await collect(store.verify());
    return events.flatMap((event) => (event.kind === "problem" ? [event.problem.what] : []));
  } finally {
    await store.close();
  }
}
