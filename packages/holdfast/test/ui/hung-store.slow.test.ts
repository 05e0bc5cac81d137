import { mkdtempSync, rmSync } from "node:fs";
import { type Socket, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import type { Inbox, RunsPage } from "@holdfast/dashboard/api";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";
import { postgresMissing, sharedPostgres } from "@holdfast/test-support/postgres-server";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { openHoldfast } from "../../src/open.ts";
import { registerRepository } from "../../src/repository-registry.ts";
import { startPage } from "./page-server.ts";

/** A PostgreSQL server that accepts everything and answers nothing, while a page shows its runs and those of another store. */

let journey: Journey;
beforeAll(async () => {
  journey = await startJourney();
}, 120_000);
afterAll(() => journey?.holdfast.remove());

/** Stands between clients and a server. While it is hung, what clients send stays with it. */
async function startRelay(server: string): Promise<{ readonly url: string; hang(): void; answer(): void }> {
  const target = decodeURIComponent(/@([^/]+)\//.exec(server)?.[1] ?? "");
  const directory = mkdtempSync(join(tmpdir(), "holdfast-relay-"));
  const sockets = new Set<Socket>();
  let held: (() => void)[] | null = null;
  const relay = createServer((client) => {
    const backend = connect(join(target, SOCKET));
    for (const [from, to] of [
      [client, backend],
      [backend, client],
    ] as const) {
      sockets.add(from);
      from.on("error", () => undefined);
      from.on("close", () => to.destroy());
    }
    backend.on("data", (bytes) => client.write(bytes));
    client.on("data", (bytes) => {
      if (held === null) backend.write(bytes);
      else held.push(() => backend.write(bytes));
    });
  });
  await new Promise<void>((resolve) => relay.listen(join(directory, SOCKET), resolve));
  onTestFinished(() => {
    relay.close();
    for (const socket of sockets) socket.destroy();
    rmSync(directory, { recursive: true, force: true });
  });
  return {
    url: server.replace(/@[^/]+\//, `@${encodeURIComponent(directory)}/`),
    hang: () => void (held ??= []),
    answer() {
      const waiting = held ?? [];
      held = null;
      for (const send of waiting) send();
    },
  };
}

const SOCKET = ".s.PGSQL.5432";

/** A run that asks, and one that waits until a time: its status is looked at each second. */
async function saveRuns(store?: string): Promise<void> {
  await using holdfast = await openHoldfast({ cwd: journey.repository(), ...(store === undefined ? {} : { store }) });
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const decision = { name: "go", question: "Continue?", options: ["yes", "no"] };
  for (const [run, body] of [
    ["asks", { for: "you", reason: "asks", until: null, decision }],
    ["waits", { for: "quota", reason: "quota", until }],
  ] as const) {
    const birth = { workflow: "impl", work: { kind: "task", text: "Do it" } } as const;
    const lease = await holdfast.store.takeLease({ run, birth, label: "test" });
    const checkpoint = { trigger: "stage", planes: emptyPlanes({ workflow: "impl", stage: "impl" }) } as const;
    await holdfast.store.commit({ lease, entries: [{ kind: "run.waiting", body }], checkpoint });
    await holdfast.store.releaseLease(lease);
  }
  const { id, location } = holdfast.store;
  const root = journey.repository();
  await registerRepository(
    { HOME: journey.holdfast.directory },
    { id, store: location, root: () => Promise.resolve(root) },
    Date.now(),
  );
}

test("a server that answers nothing hides no other store", async ({ skip }) => {
  skip(postgresMissing() !== null, postgresMissing() ?? "");
  const relay = await startRelay((await sharedPostgres()).url());
  await journey.begin();
  await saveRuns();
  const local = journey.repository();
  await journey.begin();
  await saveRuns(relay.url);
  await using page = await startPage(journey.holdfast, { cwd: local });
  const headers = { authorization: `Bearer ${page.token}` };
  const ask = async <T>(path: string): Promise<T> => JSON.parse((await page.send({ path, headers })).text) as T;
  const events = page.events("runs");
  while ((await events.next()).value?.event !== "ping");
  const keys = ({ items }: Inbox): readonly string[] => items.map(({ row }) => row.key).toSorted();
  const [mine, theirs] = ["repo-1/asks", "repo-2/asks"];
  expect(keys(await page.get<Inbox>("/api/inbox"))).toEqual([mine, theirs]);

  relay.hang();
  // The server notices it when the next look at that store does not end.
  for (;;) {
    const { problems } = await ask<RunsPage>("/api/runs");
    if (problems.length > 0) break;
  }
  const ended: string[] = [];
  const hung = page.send({ path: "/api/runs/repo-2/asks", headers }).finally(() => ended.push("its run"));
  const inbox = await ask<Inbox>("/api/inbox").finally(() => ended.push("inbox"));
  expect(keys(inbox)).toEqual([mine, theirs]);
  expect(inbox.items.find(({ row }) => row.key === theirs)?.options.map(({ label }) => label)).toEqual(["yes", "no"]);
  expect(inbox.problems).toMatchObject([{ repository: "repo-2", problem: { code: "STORE_BUSY" } }]);
  // The other store is live.
  const saved = journey.holdfast.run(["checkpoint", "--run", "new", "--name", "one"], { cwd: local });
  for (let found = false; !found;) {
    const { value } = await events.next();
    found = value?.event === "run" && JSON.stringify(value.data).includes('"repo-1/new"');
  }
  expect((await saved).status).toBe(0);
  // A browser has six connections: each request ends.
  expect((await hung).text).toContain('"STORE_BUSY"');
  expect(ended).toEqual(["inbox", "its run"]);

  relay.answer();
  expect(keys(await page.get<Inbox>("/api/inbox"))).toEqual([mine, theirs]);
  await events.return(undefined);
});
