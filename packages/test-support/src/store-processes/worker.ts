// A child process that does one thing with a store and prints what was acknowledged. many-processes.slow.test.ts in core/store-sql starts
// it.

import type { Lease } from "@holdfast/core/lease";
import type { Store } from "@holdfast/core/store";
import { HoldfastError } from "@holdfast/platform/error";
import { processIdentity } from "@holdfast/platform/identity";
import { samplePlanes, save } from "@holdfast/testing/store-contract/harness";
import { openTestStore } from "../test-stores.ts";

const [role = "", location = "", run = "", count = "0"] = process.argv.slice(2);
const times = Number(count);

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Alternates small and large states, so that all tables are written. The text is the same in every process, so that chunks are shared. */
async function write(store: Store, lease: Lease, last: (n: number) => Promise<boolean>): Promise<void> {
  const messages: string[] = [];
  for (let n = 1; ; n++) {
    messages.push(`message ${n}: ${"text ".repeat(n % 200)}`);
    if (messages.length > 60) messages.splice(0, 30);
    const { checkpoint } = await save(store, lease, { values: n % 2 === 0 ? { n } : { n, messages } });
    print(`saved ${checkpoint?.sequence}`);
    if (await last(n)) return;
  }
}

const isOver = async (store: Store): Promise<boolean> => (await store.getMeta("over")) !== undefined;

async function until(check: () => Promise<boolean>): Promise<void> {
  while (!(await check())) await new Promise((resolve) => setTimeout(resolve, 5));
}

const roles: Readonly<Record<string, (store: Store) => Promise<void>>> = {
  async write(store) {
    await store.createRun({ id: run, workflow: "sample", work: { kind: "none" } });
    const lease = await store.takeLease({ run, label: `writer ${process.pid}` });
    print(`epoch ${lease.epoch}`);
    await write(store, lease, async (n) => n === times);
  },
  async "write-on"(store) {
    await store.createRun({ id: run, workflow: "sample", work: { kind: "none" } });
    const lease = await store.takeLease({ run, label: `writer ${process.pid}` });
    await write(store, lease, async (n) => n % 10 === 0 && (await store.getMeta("over")) === "yes");
    print("ended");
  },
  /** Holds a lease until it is killed. */
  async hold(store) {
    await store.createRun({ id: run, workflow: "sample", work: { kind: "none" } });
    print(`epoch ${(await store.takeLease({ run, label: "holder" })).epoch}`);
    await until(async () => false);
  },
  /** Writes until its lease is lost: to the other processes its owner is on another host. */
  async "write-elsewhere"(store) {
    const lease = await store.takeLease({ run, label: "elsewhere" });
    print(`epoch ${lease.epoch}`);
    await write(store, lease, async () => false);
  },
  async tag(store) {
    for (let n = 1; n <= times; n++) {
      const latest = await store.latest(run);
      if (latest !== undefined) await store.tag({ run, sequence: latest.sequence, name: `t${n}`, move: true });
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    print("tagged");
  },
  async read(store) {
    let seen = 0;
    for (let n = 1; n <= times; n++) {
      const latest = await store.latest(run);
      const found = latest?.sequence ?? 0;
      if (found < seen) throw new Error(`latest went back from ${seen} to ${found}`);
      if (latest !== undefined && latest.planes.context.values["n"] === undefined)
        throw new Error("a part of a commit");
      seen = found;
      await new Promise((resolve) => setImmediate(resolve));
    }
    print(`read up to ${seen}`);
  },
  async take(store) {
    const lease = await store.takeLease({ run, label: "taker" });
    print(`epoch ${lease.epoch}`);
  },
  /**
   * Acquires each of the runs `<run>-1`, `<run>-2` … when the meta value "round" reaches its number, and holds it until the round is over.
   */
  async race(store) {
    for (let n = 1; n <= times; n++) {
      const first = { checkpoint: { trigger: "stage", planes: samplePlanes({ values: { n } }) } } as const;
      const birth = { workflow: "sample", work: { kind: "none" }, first } as const;
      await until(async () => Number((await store.getMeta("round")) ?? 0) >= n);
      try {
        const lease = await store.takeLease({ run: `${run}-${n}`, label: "racer", birth });
        const { checkpoint } = await save(store, lease, { values: { n } });
        print(`won ${n} epoch ${lease.epoch} saved ${checkpoint?.sequence}`);
      } catch (error) {
        if (!(error instanceof HoldfastError)) throw error;
        print(`lost ${n} ${error.code}`);
      }
    }
    await until(() => isOver(store));
  },
  /** Acquires one of a limited number of slots for its own run, and holds it until all processes have tried. */
  async slot(store) {
    const slot = { limit: times, wait: false };
    try {
      const lease = await store.takeLease({
        run,
        label: "x",
        slot,
        birth: { workflow: "sample", work: { kind: "none" } },
      });
      print(`slot ${lease.slot}`);
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      print(`slot ${error.code}`);
    }
    await until(() => isOver(store));
  },
  /** Tags and drops checkpoints of the existing runs, until the test ends it. */
  async drop(store) {
    let dropped = 0;
    for (let n = 1; !(await isOver(store)); n++) {
      for (const { id } of await store.listRuns()) {
        const [, ...older] = await store.listCheckpoints({ run: id, limit: 20 });
        const [tagged, ...rest] = older;
        if (tagged !== undefined)
          await store.tag({ run: id, sequence: tagged.sequence, name: `t${n % 3}`, move: true });
        const drops = rest.filter(({ tags }) => tags.length === 0).map(({ sequence }) => ({ sequence, why: "old" }));
        dropped += (await store.drop({ run: id, drops })).length;
      }
      print(`dropped ${dropped}`);
    }
  },
  /** Withdraws each of the signals "s1", "s2" … as soon as it is pending, unless the test takes it first. */
  async withdraw(store) {
    for (let n = 1; n <= times; n++) {
      const id = `s${n}`;
      await until(async () => (await store.getMeta("round")) === String(n));
      print(`${(await store.moveSignal({ run, id, from: "pending", to: null })) ? "withdrew" : "missed"} ${n}`);
    }
  },
  /** Sends a signal, and lives until it is killed. */
  async send(store) {
    const at = new Date(0).toISOString();
    await store.putSignal({ id: "last", run, kind: "pause", by: "eva", at, reason: "", now: false });
    print("sent");
    await new Promise((resolve) => setTimeout(resolve, 600_000));
  },
  /** Waits for notices of other processes, where the store has them; then nothing keeps the process alive but its store. */
  async listen(store) {
    await until(async () => store.changes?.() === store.changes?.());
    await store.setMeta("heard", "yes");
  },
  async sweep(store) {
    let chunks = 0;
    while (!(await isOver(store))) {
      chunks += (await store.sweep()).chunks;
      print(`swept ${chunks}`);
    }
  },
  /** Opens handles and tries to acquire leases that other processes hold. */
  async thief(store) {
    let refused = 0;
    while (!(await isOver(store))) {
      const other = await openTestStore(location, { create: false });
      for (const { run: held } of await other.listLeases()) {
        const code = await other.takeLease({ run: held, label: "thief", staleAfterMs: 0 }).then(
          () => "stolen",
          (error: unknown) => (error instanceof HoldfastError ? error.code : String(error)),
        );
        if (code === "stolen") print(`stole ${held}`);
        refused += 1;
      }
      await other.close();
      print(`tried ${refused}`);
    }
  },
};

const elsewhere = { ...processIdentity(), host: "elsewhere", boot: "another boot" };
const store = await openTestStore(location, {
  create: false,
  busyMs: 120_000,
  ...(role === "write-elsewhere" ? { identity: elsewhere } : {}),
});
try {
  await roles[role]?.(store);
} catch (error) {
  if (!(error instanceof HoldfastError)) throw error;
  print(`refused ${error.code}`);
}
await store.close();
