import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Lease } from "@holdfast/core/lease";
import type { Store } from "@holdfast/core/store";
import { collect, leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { type Cut, startProxy } from "@holdfast/test-support/postgres-proxy";
import { postgresMissing, sharedPostgres, startPostgres } from "@holdfast/test-support/postgres-server";
import { openTestStore } from "@holdfast/test-support/test-stores";
import type { OpenPostgresParams } from "./open.ts";

const missing = postgresMissing();
beforeEach(({ skip }) => skip(missing !== null, missing ?? ""));

async function open(url: string): Promise<Store> {
  const store = await openTestStore(url);
  onTestFinished(() => store.close());
  return store;
}

async function expectWhole(store: Store): Promise<void> {
  expect((await collect(store.verify())).filter((event) => event.kind === "problem")).toEqual([]);
}

/** Until the server has ended what a lost connection left: a sweep begins when no other transaction is under way. */
async function settled(store: Store): Promise<void> {
  await store.sweep();
}

/** A state in chunks, so that a save writes every kind of row. */
function state(n: number): { readonly n: number; readonly lines: readonly string[] } {
  return {
    n,
    lines: Array.from({ length: 20 }, (_, i) => `line ${i} of ${i % 3 === 0 ? n : 0} ${"text ".repeat(150)}`),
  };
}

const POINTS = Array.from({ length: 40 }, (_, i) => i + 1);

describe("a connection that is lost", () => {
  test.each(["before", "after"] as const)(
    "at any statement of a save, %s it is sent: the save is made once",
    async (when) => {
      const url = (await sharedPostgres()).url();
      const proxy = await startProxy(url, onTestFinished);
      const [store, other] = [await open(proxy.url(url)), await open(url)];
      const lease = await leasedRun(store);
      let last = 0;
      for (const statement of POINTS) {
        proxy.cut({ statement, when, stay: false });
        const { checkpoint } = await save(store, lease, { values: state(statement) });
        last = proxy.sent();
        expect(checkpoint?.sequence).toBe(statement);
        expect((await other.latest("sample"))?.planes.context.values["n"]).toBe(statement);
      }
      // The last points are beyond the end of a save.
      expect(last).toBeLessThan(POINTS.length);
      const entries = await collect(other.readJournal({ run: "sample" }));
      expect(entries.filter(({ kind }) => kind === "checkpoint")).toHaveLength(POINTS.length);
      await expectWhole(other);
    },
  );

  test.each(["before", "after"] as const)(
    "at any statement of a save, %s it is sent, for ever: the save is there as a whole or not at all",
    async (when) => {
      const url = (await sharedPostgres()).url();
      const other = await open(url);
      const found: number[] = [];
      for (const statement of POINTS.filter((one) => one % 2 === (when === "before" ? 0 : 1))) {
        const proxy = await startProxy(url, onTestFinished);
        const store = await openTestStore(proxy.url(url), { patienceMs: 0 });
        const run = `r-${statement}`;
        const lease = await leasedRun(store, run);
        await save(store, lease, { values: state(0) });
        proxy.cut({ statement, when, stay: true });
        const isSaved = await save(store, lease, { values: state(1) }).then(
          () => true,
          () => false,
        );
        const latest = await other.latest(run);
        const n = latest?.planes.context.values["n"];
        if (isSaved) expect(n).toBe(1);
        found.push(Number(n));
        await store.close();
      }
      expect(new Set(found)).toEqual(new Set([0, 1]));
      await expectWhole(other);
    },
  );

  test("while calls share a transaction, and the server does not come back in time: none of them is made twice", async () => {
    const url = (await sharedPostgres()).url();
    const proxy = await startProxy(url, onTestFinished);
    const store = await openTestStore(proxy.url(url), { patienceMs: 0 });
    onTestFinished(() => store.close());
    const other = await open(url);
    const leases: Lease[] = [];
    for (const run of ["a", "b", "c"]) leases.push(await leasedRun(store, run));
    const codes = new Set<string>();
    for (const statement of POINTS.slice(0, 24)) {
      const before = await other.stats();
      proxy.cut({ statement, when: "after", stay: false });
      const answers = await Promise.allSettled(leases.map((lease) => save(store, lease, { values: { statement } })));
      await settled(other);
      for (const one of answers) codes.add(one.status === "fulfilled" ? "saved" : String(one.reason.code));
      const grown = (await other.stats()).checkpoints - before.checkpoints;
      expect([0, 3]).toContain(grown);
      if (answers.every(({ status }) => status === "fulfilled")) expect(grown).toBe(3);
    }
    expect([...codes].toSorted()).toEqual(["IO_FAILED", "saved"]);
    await expectWhole(other);
  });

  test("during a commit, and the server refuses the next one: that it is not known is reported, not a refusal", async () => {
    const server = await sharedPostgres();
    const url = server.url();
    const other = await open(url);
    const schema = new URL(url).searchParams.get("schema") ?? "";
    server.sql(`CREATE ROLE ${schema} LOGIN SUPERUSER`);
    const proxy = await startProxy(url, onTestFinished);
    const store = await openTestStore(proxy.url(url).replace("//holdfast@", `//${schema}@`));
    onTestFinished(() => store.close());
    const leases = [await leasedRun(store, "a"), await leasedRun(store, "b")];
    // Connections that are open stay; a new one is refused.
    server.sql(`ALTER ROLE ${schema} NOLOGIN`);
    proxy.cut({ statement: "COMMIT", when: "after", stay: false, all: true });
    const answers = await Promise.allSettled(leases.map((lease) => save(store, lease, { values: { n: 1 } })));
    for (const answer of answers)
      expect(answer).toMatchObject({ status: "rejected", reason: { hint: expect.stringContaining("is not known") } });
    await settled(other);
    for (const run of ["a", "b"]) expect((await other.latest(run))?.sequence).toBe(1);
    await expectWhole(other);
  });

  test("while a signal is written: what cannot be known is reported as such, and nothing is written twice", async () => {
    const url = (await sharedPostgres()).url();
    const proxy = await startProxy(url, onTestFinished);
    const [store, other] = [await open(proxy.url(url)), await open(url)];
    await leasedRun(store);
    const put = async (cut: Cut): Promise<string> => {
      proxy.cut(cut);
      const id = `s-${cut.statement}-${cut.when}`;
      const code = await store.putSignal({ id, run: "sample", kind: "checkpoint", epoch: 1, name: null }).then(
        () => "put",
        (error: { readonly code: string }) => error.code,
      );
      await settled(other);
      return `${code} ${(await other.listSignals("sample")).filter((signal) => signal.id === id).length}`;
    };
    for (const statement of POINTS.slice(0, 12))
      expect(["IO_FAILED 0", "IO_FAILED 1", "put 1"]).toContain(await put({ statement, when: "after", stay: false }));
    expect(await put({ statement: "COMMIT", when: "before", stay: false })).toBe("IO_FAILED 0");
    expect(await put({ statement: "COMMIT", when: "after", stay: false })).toBe("IO_FAILED 1");
  });

  test("to a server that falls silent: a read fails in time, and the next one takes another connection", async () => {
    const url = (await sharedPostgres()).url();
    const proxy = await startProxy(url, onTestFinished);
    const store = await openTestStore(proxy.url(url), { patienceMs: 5000 });
    onTestFinished(() => store.close());
    await save(store, await leasedRun(store), { values: { n: 1 } });
    proxy.cut({ statement: 2, when: "after", stay: false, silent: true });
    await expect(store.latest("sample")).rejects.toMatchObject({ code: "IO_FAILED", retry: "later" });
    expect((await store.latest("sample"))?.sequence).toBe(1);
  });

  test.each(["that falls silent", "that is gone"])(
    "to a server %s: it is reported once that calls wait",
    async (how) => {
      const url = (await sharedPostgres()).url();
      const proxy = await startProxy(url, onTestFinished);
      const waits: Parameters<NonNullable<OpenPostgresParams["onWait"]>>[0][] = [];
      let reported = (): void => {};
      const first = new Promise<void>((resolve) => (reported = resolve));
      const store = await openTestStore(proxy.url(url), {
        patienceMs: 20_000,
        onWait(wait) {
          waits.push(wait);
          reported();
        },
      });
      onTestFinished(() => store.close());
      await save(store, await leasedRun(store), { values: { n: 1 } });
      expect(waits).toEqual([]);
      const [begun, silent] = [Date.now(), how === "that falls silent"];
      proxy.cut({ statement: 1, when: "before", stay: true, all: true, silent });
      const calls = Promise.allSettled([store.latest("sample"), store.getMeta("key")]);
      await first;
      expect(waits).toMatchObject([{ location: store.location }]);
      expect(waits[0]?.until).toBeGreaterThanOrEqual(begun + 20_000);
      // The server is back. A call that had reached it still waits for its answer.
      proxy.cut({ statement: Infinity, when: "before", stay: false });
      await calls;
      expect(waits).toHaveLength(1);
      expect((await store.latest("sample"))?.sequence).toBe(1);
    },
  );

  test("by an answer to COMMIT that is none: saves of several runs in one transaction are made once", async () => {
    const url = (await sharedPostgres()).url();
    const proxy = await startProxy(url, onTestFinished);
    const [store, other] = [await open(proxy.url(url)), await open(url)];
    const leases = [await leasedRun(store, "a"), await leasedRun(store, "b")];
    proxy.cut({ statement: "COMMIT", when: "after", stay: false, garbage: Buffer.from("?\0\0\0\u0004", "latin1") });
    const saved = await Promise.all(leases.map((lease) => save(store, lease, { values: { n: 1 } })));
    expect(saved.map(({ checkpoint }) => checkpoint?.sequence)).toEqual([1, 1]);
    for (const { run } of leases) expect((await other.getRun(run))?.checkpoints).toBe(1);
    await expectWhole(other);
  });

  test("to a server that falls silent: a store that is closed does not wait for it", async () => {
    const url = (await sharedPostgres()).url();
    const other = await open(url);
    const proxy = await startProxy(url, onTestFinished);
    const store = await openTestStore(proxy.url(url));
    // The connection that hears of changes is open too.
    const stopping = new AbortController();
    const heard = store.watch({ signal: stopping.signal })[Symbol.asyncIterator]().next();
    await leasedRun(other);
    await heard;
    proxy.cut({ statement: "SELECT pg_notify", when: "after", stay: true, all: true, silent: true });
    await store.setMeta("key", "value");
    stopping.abort();
    await store.close();
    expect(await other.getMeta("key")).toBe("value");
  });

  test("by the server's administrator, again and again: every save is made once", async () => {
    const server = await sharedPostgres();
    const url = server.url();
    // Other tests use the server too.
    const role = new URL(url).searchParams.get("schema") ?? "";
    server.sql(`CREATE ROLE ${role} LOGIN SUPERUSER`);
    const store = await open(url.replace("//holdfast@", `//${role}@`));
    const lease = await leasedRun(store);
    const seen = { saves: 0, isOver: false };
    const cutting = (async () => {
      for (let cuts = 0; cuts < 15;) {
        const before = seen.saves;
        const ended = server.sql(
          `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '${role}'`,
        );
        cuts += Number(ended) > 0 ? 1 : 0;
        while (seen.saves < before + 3) await new Promise((resolve) => setTimeout(resolve, 1));
      }
      seen.isOver = true;
    })();
    for (; !seen.isOver; seen.saves++) {
      const { checkpoint } = await save(store, lease, { values: { n: seen.saves } });
      expect(checkpoint?.sequence).toBe(seen.saves + 1);
    }
    await cutting;
    expect((await store.getRun("sample"))?.checkpoints).toBe(seen.saves);
    await expectWhole(store);
  });
});

describe("a server that is killed", () => {
  test("loses nothing that it acknowledged, and writers continue when it is back", async () => {
    const server = await startPostgres(onTestFinished);
    const url = server.url();
    const store = await open(url);
    const leases: Lease[] = [];
    for (const run of ["a", "b", "c", "d"]) leases.push(await leasedRun(store, run));
    const saved = new Map<string, number>();
    const stopping = new AbortController();
    const writing = leases.map(async (lease) => {
      for (let n = 1; !stopping.signal.aborted; n++) {
        const { checkpoint } = await save(store, lease, { values: n % 4 === 0 ? state(n) : { n } });
        expect(checkpoint?.sequence).toBe(n);
        saved.set(lease.run, n);
      }
    });
    for (let round = 1; round <= 3; round++) {
      const before = saved.get("a") ?? 0;
      while ((saved.get("a") ?? 0) < before + 7 * round) await new Promise((resolve) => setTimeout(resolve, 2));
      await server.crash();
      await server.start();
    }
    stopping.abort();
    await Promise.all(writing);
    for (const { run } of leases) expect((await store.getRun(run))?.checkpoints).toBe(saved.get(run));
    await expectWhole(store);
  });
});
