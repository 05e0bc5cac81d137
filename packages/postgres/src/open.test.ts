import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import pg from "pg";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { Store } from "@holdfast/core/store";
import { HoldfastError } from "@holdfast/platform/error";
import { collect, leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { GUARDED, postgresMissing, sharedPostgres } from "@holdfast/test-support/postgres-server";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { openTestStore } from "@holdfast/test-support/test-stores";
import { putMeta } from "@holdfast/core/store-sql/schema";
import { connectDriver } from "./driver.ts";
import { openPostgresStore } from "./open.ts";
import { parseTarget } from "./target.ts";

const missing = postgresMissing();

async function open(url: string, params: Parameters<typeof openTestStore>[1] = {}): Promise<Store> {
  const store = await openTestStore(url, params);
  onTestFinished(() => store.close());
  return store;
}

async function failure(work: Promise<unknown>): Promise<HoldfastError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof HoldfastError) return error;
  throw new Error("it did not fail", { cause: error });
}

const schemaOf = (url: string): string => new URL(url).searchParams.get("schema") ?? "";

describe("a store in PostgreSQL", () => {
  beforeEach(({ skip }) => skip(missing !== null, missing ?? ""));

  test("is made once, in the schema that the URL names, however many processes make it", async () => {
    const server = await sharedPostgres();
    const url = server.url();
    expect((await failure(open(url, { create: false }))).code).toBe("STORE_ABSENT");
    const stores = await Promise.all(Array.from({ length: 5 }, () => open(url)));
    expect(new Set(stores.map(({ id }) => id)).size).toBe(1);
    expect((await open(server.url())).id).not.toBe(stores[0]?.id);
    expect(server.sql(`SELECT count(*) FROM pg_tables WHERE schemaname = '${schemaOf(url)}'`).trim()).toBe("10");
    const { engine, durability, bytes } = await (await open(url)).stats();
    expect([engine, durability]).toEqual([
      expect.stringMatching(/^PostgreSQL \d+\.\d+$/),
      "fsync=on, full_page_writes=on, synchronous_commit=on",
    ]);
    expect(bytes).toBeGreaterThan(0);
  });

  test("has no high-water mark to lose on a machine that has only read it", async () => {
    const server = await sharedPostgres();
    const url = server.url();
    const writer = await open(url);
    await leasedRun(writer);
    const stateHome = scratchDirectory(onTestFinished);
    const summary = async (): Promise<unknown> => {
      const reader = await openPostgresStore({ url, stateHome, readOnly: true });
      return (await collect(reader.verify({})).finally(() => reader.close())).at(-1);
    };
    expect(await summary()).toMatchObject({ kind: "summary", ok: true, problems: 0 });
    await (await openPostgresStore({ url, stateHome })).close();
    rmSync(join(stateHome, "holdfast/stores", writer.id, "high-water"));
    expect(await summary()).toMatchObject({ kind: "summary", ok: false, problems: 1 });
  });

  test("of a newer Holdfast is refused, and one that has lost a table or is gone is not made again", async () => {
    const server = await sharedPostgres();
    const url = server.url();
    await (await open(url)).close();
    const sum = crc32("store/schema\n99");
    server.sql(`UPDATE ${schemaOf(url)}.meta SET value = '99', checksum = ${sum} WHERE key = 'store/schema'`);
    expect(await failure(open(url))).toMatchObject({
      code: "STORE_TOO_NEW",
      message: expect.stringContaining("has schema 99; this Holdfast supports up to 1"),
    });
    const cut = server.url();
    await (await open(cut)).close();
    server.sql(`DROP TABLE ${schemaOf(cut)}.entries`);
    expect((await failure(open(cut))).code).toBe("STORE_MISSING");
    server.sql(`DROP SCHEMA ${schemaOf(cut)} CASCADE`);
    const gone = await failure(open(cut));
    expect([gone.code, gone.message]).toEqual(["STORE_MISSING", expect.stringContaining("There was a store in")]);
    rmSync(String(gone.data["record"]));
    const fresh = await open(cut);
    server.sql(`DROP SCHEMA ${schemaOf(cut)} CASCADE`);
    await fresh.close();
    const elsewhere = await openPostgresStore({ url: cut, stateHome: scratchDirectory(onTestFinished) });
    onTestFinished(() => elsewhere.close());
    expect((await failure(open(cut))).message).toContain("Another store is in");
  });

  test("is not made in a schema that has tables of something else by the same names", async () => {
    const server = await sharedPostgres();
    const withTable = (table: string): string => {
      const url = server.url();
      server.sql(`CREATE SCHEMA ${schemaOf(url)}; CREATE TABLE ${schemaOf(url)}.${table}`);
      return url;
    };
    for (const table of ["entries (place int)", "meta (key text, value text)", "tags_by_checkpoint (tag int)"]) {
      const url = withTable(table);
      expect(await failure(open(url))).toMatchObject({
        code: "USAGE",
        message: expect.stringContaining(`has tables of something else: ${table.split(" ")[0] ?? ""}`) as string,
        hint: expect.stringContaining("Nothing was created. Name a schema for the store alone") as string,
      });
      expect(server.sql(`SELECT count(*) FROM pg_tables WHERE schemaname = '${schemaOf(url)}'`).trim()).toBe("1");
    }
    await leasedRun(await open(withTable("invoices (number int)")));
  });

  test("of an older schema gets what is missing, once, from the role that owns it", async () => {
    const server = await sharedPostgres();
    const url = server.url();
    const schema = schemaOf(url);
    const first = await open(url);
    await first.close();
    // The first schema adds all tables to that of the facts.
    const tables = server.sql(`SELECT string_agg(tablename, ',') FROM pg_tables
      WHERE schemaname = '${schema}' AND tablename <> 'meta'`);
    const qualified = tables
      .trim()
      .split(",")
      .map((name) => `${schema}.${name}`);
    server.sql(`DROP TABLE ${qualified.join(", ")};
      UPDATE ${schema}.meta SET value = '0', checksum = ${crc32("store/schema\n0")} WHERE key = 'store/schema'`);
    const worker = `${schema}_worker`;
    server.sql(`CREATE ROLE ${worker} LOGIN; GRANT USAGE ON SCHEMA ${schema} TO ${worker};
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${worker}`);
    const stateHome = scratchDirectory(onTestFinished);
    const asWorker = url.replace(/\/\/\w+@/, `//${worker}@`);
    for (const refused of [
      await failure(open(asWorker)),
      await failure(openPostgresStore({ url, stateHome, readOnly: true })),
    ])
      expect([refused.code, refused.message, refused.hint]).toEqual([
        "STORE_READ_ONLY",
        expect.stringContaining("has schema 0; this Holdfast needs 1"),
        expect.stringContaining("the role that owns the tables"),
      ]);
    const stores = await Promise.all(Array.from({ length: 4 }, () => open(url)));
    for (const store of stores) expect(store.id).toBe(first.id);
    const [store = first] = stores;
    await save(store, await leasedRun(store), { values: { n: 1 } });
    expect((await collect(store.verify())).at(-1)).toMatchObject({ kind: "summary", ok: true });
    expect(server.sql(`SELECT reloptions FROM pg_class WHERE oid = '${schema}.runs'::regclass`).trim()).toBe(
      "{fillfactor=50}",
    );
  });

  test("is written by a role that owns nothing, and only read by one that may only read", async () => {
    const server = await sharedPostgres();
    const url = server.url();
    const schema = schemaOf(url);
    const as = (role: string): string => url.replace(/\/\/\w+@/, `//${role}@`);
    const [worker, reader] = [`${schema}_worker`, `${schema}_reader`];
    server.sql(`CREATE ROLE ${worker} LOGIN; CREATE ROLE ${reader} LOGIN`);
    const denied = await failure(open(as(worker)));
    expect([denied.code, denied.hint]).toEqual(["STORE_READ_ONLY", expect.stringContaining("docs/postgres.md")]);
    await (await open(url)).close();
    // Without USAGE the server shows no tables there. They are not gone.
    for (const grant of ["SELECT 1", `GRANT USAGE ON SCHEMA ${schema} TO ${reader}`]) {
      server.sql(grant);
      expect(await failure(open(as(reader)))).toMatchObject({
        code: "STORE_READ_ONLY",
        message: expect.stringContaining(`may not read the schema ${schema}`) as string,
      });
    }
    server.sql(
      `GRANT USAGE ON SCHEMA ${schema} TO ${worker}, ${reader};
       GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${worker};
       GRANT SELECT ON ALL TABLES IN SCHEMA ${schema} TO ${reader}`,
    );
    const store = await open(as(worker));
    const lease = await leasedRun(store);
    for (let n = 1; n <= 3; n++) await save(store, lease, { values: { n, long: `${n} ${"x".repeat(9000)}` } });
    await store.drop({ run: "sample", drops: [{ sequence: 1, why: "test" }] });
    expect((await store.sweep()).chunks).toBeGreaterThan(0);
    expect((await collect(store.verify())).at(-1)).toMatchObject({ kind: "summary", ok: true });
    const other = await open(as(reader));
    expect((await other.latest("sample"))?.sequence).toBe(3);
    expect((await failure(other.setMeta("a", "b"))).code).toBe("STORE_READ_ONLY");
  });

  test("keeps every text, also with NUL, and texts sort by their bytes", async () => {
    const store = await open((await sharedPostgres()).url());
    const lease = await store.takeLease({
      run: "sample",
      label: "a\0b",
      birth: { workflow: "sample", work: { kind: "task", text: "\0" } },
    });
    const texts = ["\0", "\u0001", "\u0001\u0002", "\u0001\u0001\0", "plain", "\u{1F600}"];
    for (const text of texts) {
      await store.setMeta(`key ${text}`, text);
      expect(await store.getMeta(`key ${text}`)).toBe(text);
    }
    expect((await store.getLease("sample"))?.owner.label).toBe("a\0b");
    for (const name of ["b", "B", "a-1", "a1"]) {
      await save(store, lease, { stage: "s\0", values: { name } });
      await store.tag({ run: "sample", sequence: 1, name });
    }
    expect((await store.latest("sample"))?.stage).toBe("s\0");
    expect((await store.getCheckpoint({ run: "sample", sequence: 1 })).tags).toEqual(["B", "a-1", "a1", "b"]);
    expect((await collect(store.verify())).at(-1)).toMatchObject({ kind: "summary", ok: true });
  });

  test("takes the time of leases from the database, so that a wrong clock of a machine takes none away", async () => {
    const url = (await sharedPostgres()).url();
    const store = await open(url);
    const lease = await leasedRun(store);
    vi.useFakeTimers({ now: Date.now() + 3_600_000, toFake: ["Date"] });
    onTestFinished(() => void vi.useRealTimers());
    const other = await open(url, { identity: { host: "elsewhere", pid: 1, started: null, boot: "another" } });
    expect((await failure(other.takeLease({ run: "sample", label: "other" }))).code).toBe("LEASE_HELD");
    const renewed = await store.renewLease(lease);
    expect(Math.abs(Date.parse(renewed.heartbeatAt) - Date.parse(lease.heartbeatAt))).toBeLessThan(600_000);
  });

  test("is watched in whole: also entries whose rows are older than those seen before, because they are committed later", async () => {
    const server = await sharedPostgres();
    const url = server.url();
    const [store, other] = [await open(url), await open(url)];
    const leases = [await leasedRun(store, "early"), await leasedRun(other, "late")] as const;
    const watching = new AbortController();
    const entries = store.watch({ signal: watching.signal })[Symbol.asyncIterator]();
    // A save that writes chunks writes them last, and waits for this lock with its entries written.
    const driver = await connectDriver({
      target: parseTarget(url),
      highWater: () => null,
      ownClock: true,
      patienceMs: 0,
    });
    onTestFinished(() => driver.close());
    let saving: Promise<unknown> = Promise.resolve();
    await driver.inTransaction("BEGIN", async (tx) => {
      await tx.all("LOCK TABLE chunks IN SHARE MODE");
      saving = save(other, leases[1], { values: { long: "x".repeat(9000) } });
      const waits = `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '${schemaOf(url)}.chunks'::regclass`;
      while (server.sql(waits).trim() !== "1") await new Promise((resolve) => setTimeout(resolve, 5));
      await save(store, leases[0], { values: { n: 1 } });
      expect(await entries.next()).toMatchObject({ value: { run: "early", kind: "checkpoint" } });
    });
    await saving;
    expect(await entries.next()).toMatchObject({ value: { run: "late", kind: "checkpoint" } });
    watching.abort();
  });

  test("does not commit what was sent behind a statement that failed, and works on", async () => {
    const server = await sharedPostgres();
    const url = server.url();
    const store = await open(url);
    const driver = await connectDriver({
      target: parseTarget(url),
      highWater: () => null,
      ownClock: true,
      patienceMs: 0,
    });
    onTestFinished(() => driver.close());
    const write = (broken: string): Promise<void> =>
      driver.write(
        { sweep: "none", slots: false },
        async (tx) => {
          putMeta(tx, "fact/a", "1");
          tx.run(broken);
          putMeta(tx, "fact/b", "2");
        },
        () => Promise.resolve("repeat"),
      );
    await expect(write("SELECT missing FROM meta WHERE key = 'x'")).rejects.toThrow('column "missing" does not exist');
    expect([await store.getMeta("a"), await store.getMeta("b")]).toEqual([undefined, undefined]);
    await write("SELECT value FROM meta WHERE key = 'x'");
    expect([await store.getMeta("a"), await store.getMeta("b")]).toEqual(["1", "2"]);
  });

  test("that is older than this machine has seen it is refused", async () => {
    const server = await sharedPostgres();
    const url = server.url();
    const store = await open(url);
    const lease = await leasedRun(store);
    await save(store, lease, { values: { n: 1 } });
    await store.close();
    server.sql(`DELETE FROM ${schemaOf(url)}.entries WHERE kind IN ('checkpoint', 'lease.released')`);
    const error = await failure(open(url));
    expect([error.code, error.hint]).toEqual(["STORE_CUT", expect.stringContaining("high-water")]);
  });

  test("that goes back while a process holds a run gets no gap in its journal", async () => {
    const server = await sharedPostgres();
    const url = server.url();
    const store = await open(url);
    const lease = await leasedRun(store);
    await save(store, lease, { values: { n: 1 } });
    const kept = `${schemaOf(url)}.kept`;
    server.sql(`CREATE TABLE ${kept} AS SELECT * FROM ${schemaOf(url)}.runs`);
    const note = (text: string) => store.commit({ lease, entries: [{ kind: "note", body: { text } }] });
    await note("one");
    await note("two");
    // As a standby that had not received the last commits.
    server.sql(`UPDATE ${schemaOf(url)}.runs r SET entries = k.entries, head = k.head FROM ${kept} k WHERE k.run = r.run;
      DELETE FROM ${schemaOf(url)}.entries WHERE entry > (SELECT max(entries) FROM ${kept})`);
    await note("three");
    const entries = await collect(store.readJournal({ run: "sample" }));
    expect(entries.map(({ body }) => body["text"]).filter((text) => text !== undefined)).toEqual(["three"]);
    expect((await collect(store.verify({ run: "sample" }))).filter(({ kind }) => kind === "problem")).toEqual([]);
  });

  test("answers with an error that names the server and never the password", async () => {
    const server = await sharedPostgres();
    const url = server.url().replace("//holdfast@", "//holdfast:s3cret@");
    const store = await open(url);
    expect(store.location).toMatch(/^postgres:\/\/holdfast@[^:]*\/postgres\?schema=t_/);
    const wrong = [url.replace("/postgres?", "/gone?"), url.replace(/@[^/]+/, "@%2Fgone"), "postgres://a:s3cret@b:x/c"];
    const errors = await Promise.all(wrong.map((one) => failure(openPostgresStore({ url: one }))));
    expect(errors.map(({ code }) => code)).toEqual(["IO_FAILED", "IO_FAILED", "USAGE"]);
    for (const error of errors) {
      const told = JSON.stringify([error.message, error.hint, error.data, String(error.cause), error.stack]);
      expect(told).not.toContain("s3cret");
    }
  });
});

describe("a server that asks for a password", () => {
  beforeEach(({ skip }) => skip(missing !== null, missing ?? ""));

  test("gets it from PGPASSWORD, ~/.pgpass or the URL; without it, or with another, the error says what to do", async () => {
    const plain = (await sharedPostgres()).url().replace("//holdfast@", `//${GUARDED.role}@`);
    const withPassword = (password: string): string => plain.replace("@", `:${password}@`);
    const file = join(scratchDirectory(onTestFinished), "pgpass");
    vi.stubEnv("PGPASSFILE", file);
    onTestFinished(() => void vi.unstubAllEnvs());
    for (const url of [plain, withPassword("wrong-one")]) {
      const error = await failure(open(url));
      expect([error.code, error.hint]).toEqual(["IO_FAILED", expect.stringContaining("~/.pgpass")]);
      expect(JSON.stringify([error.message, error.data, String(error.cause)])).not.toContain("wrong-one");
    }
    await open(withPassword(GUARDED.password));
    writeFileSync(file, `*:*:postgres:${GUARDED.role}:${GUARDED.password}\n`, { mode: 0o600 });
    await open(plain);
    rmSync(file);
    vi.stubEnv("PGPASSWORD", GUARDED.password);
    await open(plain);
  });
});

describe("the URL of a store", () => {
  test.each([
    ["postgres://eva@db.example:6543/team?schema=app", "postgres://eva@db.example:6543/team?schema=app"],
    ["postgresql://eva:pw@db.example/team", "postgres://eva@db.example:5432/team?schema=holdfast"],
    ["postgres://eva:pw@/team?host=/run/pg", "postgres://eva@%2Frun%2Fpg/team?schema=holdfast"],
    ["postgres://eva@%2Frun%2Fpg/team", "postgres://eva@%2Frun%2Fpg/team?schema=holdfast"],
    ["postgres://eva:pw@[::1]:6543/team", "postgres://eva@[::1]:6543/team?schema=holdfast"],
    [
      "postgres://eva:pw@db/team?sslmode=require&password=pw&sslpassword=pw",
      "postgres://eva@db:5432/team?schema=holdfast&sslmode=require",
    ],
  ])("%s is %s, and that is the same database", (url, location) => {
    expect(parseTarget(url).location).toBe(location);
    const [first, again] = [url, location].map((one) => parseTarget(one).client);
    expect({ ...again, password: null }).toEqual({ ...first, password: null });
  });

  test("has no sign before the host without a user", () => {
    const { user } = pg.defaults;
    onTestFinished(() => void (pg.defaults.user = user));
    pg.defaults.user = "";
    vi.stubEnv("PGUSER", undefined);
    onTestFinished(() => void vi.unstubAllEnvs());
    expect(parseTarget("postgres://db.example/team").location).toBe("postgres://db.example:5432/team?schema=holdfast");
  });

  test.each([
    "postgres://a/b?schema=pg_catalog",
    'postgres://a/b?schema=x"y',
    "postgres://a/b?sslmode=verify-full&sslrootcert=/nothing",
    "mysql://a/b",
    "postgres://eva:12/pw9secret@db/team",
    "postgres://eva:12#pw9secret@db/team",
  ])("%s is refused, and no part of a password is shown", (url) => {
    let refused: unknown;
    try {
      parseTarget(url);
    } catch (error) {
      refused = error;
    }
    expect(refused).toBeInstanceOf(HoldfastError);
    expect(refused).toMatchObject({ code: "USAGE" });
    expect(JSON.stringify(refused) + String(refused)).not.toContain("secret");
  });
});
