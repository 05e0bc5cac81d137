import { HoldfastError } from "@holdfast/platform/error";
import type { Lease } from "@holdfast/core/lease";
import type { Store } from "@holdfast/core/store";
import { openStore } from "../judges/open-store.ts";
import { printLine } from "./printed.ts";
import { planesOf, RUN } from "./scenario.ts";

/**
 * Saves, and prints each save. Usage: store-writer <store directory> <plan>
 * new-store: from nothing, one save of each size. with-history: on an existing store, all other kinds of writes.
 * steady: four more saves, until one is refused. other-host: the same as a process of another host, whose liveness cannot
 * be checked here.
 * die: new-store, then kill -9 of itself, with the store open.
 * stubborn: new-store, but a refused save is tried again, first with the same handle, then with a new one.
 */
const [, , directory = "", plan = ""] = process.argv;

switch (plan) {
  case "new-store":
    await createStore();
    break;
  case "with-history":
    await continueStore();
    break;
  case "steady":
    await steady(await openStore(directory));
    break;
  case "other-host":
    await steady(await openStore(directory, { host: "elsewhere", pid: 1, started: "1", boot: "1" }));
    break;
  case "die":
    await die();
    break;
  case "stubborn":
    await stubborn();
    break;
  default:
    throw new Error(`no plan is called ${plan}`);
}

async function createStore(): Promise<void> {
  const store = await openStore(directory);
  const lease = await start(store);
  for (let sequence = 1; sequence <= 6; sequence += 1) await save(store, lease, sequence);
  await store.close();
}

async function die(): Promise<void> {
  const store = await openStore(directory);
  const lease = await start(store);
  for (let sequence = 1; sequence <= 6; sequence += 1) await save(store, lease, sequence);
  process.kill(process.pid, "SIGKILL");
}

async function continueStore(): Promise<void> {
  const store = await openStore(directory);
  const lease = await start(store);
  const first = ((await store.latest(RUN))?.sequence ?? 0) + 1;
  await save(store, lease, first);
  await effect(store, lease, "push");
  await store.tag({ run: RUN, sequence: first, name: "kept" });
  printLine({ kind: "tagged", sequence: first, name: "kept" });
  // Three at once, to share a sync.
  await Promise.all([1, 2, 3].map((more) => save(store, lease, first + more)));
  const renewed = await store.renewLease(lease);
  for (const sequence of [2, 3]) printLine({ kind: "dropping", sequence });
  await store.drop({ run: RUN, drops: [2, 3].map((sequence) => ({ sequence, why: "a test" })) });
  for (const sequence of [2, 3]) printLine({ kind: "dropped", sequence });
  await save(store, renewed, first + 4);
  await store.sweep();
  printLine({ kind: "note", text: "swept" });
  await save(store, renewed, first + 5);
  await store.releaseLease(renewed);
  await store.close();
}

async function steady(store: Store): Promise<void> {
  try {
    const lease = await start(store);
    const first = ((await store.latest(RUN))?.sequence ?? 0) + 1;
    for (let sequence = first; sequence < first + 4; sequence += 1) await save(store, lease, sequence);
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    printLine({ kind: "refused", code: error.code, what: error.message });
  }
  await store.close();
}

async function stubborn(): Promise<void> {
  let handle: { readonly store: Store; readonly lease: Lease } | undefined;
  let sequence = 1;
  for (let tries = 0; sequence <= 4 && tries < 24; tries += 1) {
    try {
      // Tries three times on one handle, then opens a new one.
      if (handle !== undefined && tries % 3 === 0) {
        await handle.store.close();
        handle = undefined;
      }
      if (handle === undefined) {
        const store = await openStore(directory);
        handle = { store, lease: await start(store) };
        sequence = ((await store.latest(RUN))?.sequence ?? 0) + 1;
      }
      await save(handle.store, handle.lease, sequence);
      sequence += 1;
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      printLine({ kind: "refused", code: error.code, what: error.message });
    }
  }
  await handle?.store.close().catch((error: unknown) => {
    if (!(error instanceof HoldfastError)) throw error;
    printLine({ kind: "refused", code: error.code, what: error.message });
  });
}

async function start(store: Store): Promise<Lease> {
  await store.createRun({ id: RUN, workflow: "none", work: { kind: "none" } });
  return store.takeLease({ run: RUN, label: "a writer" });
}

async function save(store: Store, lease: Lease, sequence: number): Promise<void> {
  printLine({ kind: "saving", sequence });
  const { checkpoint } = await store.commit({
    lease,
    entries: [{ kind: "note", body: { text: `before ${sequence}` } }],
    checkpoint: { sequence, trigger: "manual", planes: planesOf(sequence) },
  });
  printLine({ kind: "saved", sequence, digest: checkpoint?.digest ?? "none" });
}

async function effect(store: Store, lease: Lease, key: string): Promise<void> {
  const payload = "0".repeat(64);
  await store.commit({
    lease,
    entries: [{ kind: "effect.intended", body: { key, kind: "push", target: "origin", payload, detail: {} } }],
  });
  printLine({ kind: "effect", key, state: "intended" });
  await store.commit({
    lease,
    entries: [{ kind: "effect.settled", body: { key, outcome: "done", adopted: false, receipt: "pushed" } }],
  });
  printLine({ kind: "effect", key, state: "done" });
}
