import { once } from "node:events";
import { expect, test } from "vitest";
import type { Dispatch } from "@holdfast/core/dispatch";
import type { Holdfast } from "../holdfast.ts";
import { type FleetRepository, runFleetWorker } from "./fleet-worker.ts";
import { submissionText } from "./plan-fleet.ts";
import type { WorkerEvent } from "./run-worker.ts";
import { newActivity } from "./worker-health.ts";

/** The part of an open repository that a worker without work uses. */
function repositoryThat(name: string, unfinished: () => Promise<readonly []>): FleetRepository {
  const store = { id: name, now: async () => 0 };
  return { root: `/${name}`, store: null, holdfast: { store, unfinished, files: null } as object as Holdfast };
}

/** Works until the signal, and returns what was emitted. */
async function work(
  repositories: readonly FleetRepository[],
  signal: AbortSignal,
  drain: () => Promise<void> = async () => undefined,
  {
    failed = new Promise(() => {}),
    events = [],
  }: { readonly failed?: Promise<Error>; readonly events?: WorkerEvent[] } = {},
): Promise<readonly WorkerEvent[]> {
  const join = async () => ({ id: "w", drain, failed });
  const parts = { join, list: async () => [], submit: async () => "known", close: async () => undefined };
  const dispatch = parts as object as Dispatch;
  await runFleetWorker({
    dispatch,
    place: "here",
    repositories,
    labels: [],
    slots: 1,
    activity: newActivity(),
    version: "1",
    reconcileMs: 1,
    env: {},
    signal,
    inherits: false,
    emit: (event) => void events.push(event),
  });
  return events;
}

test("an error of one repository that lasts is reported once, also while another one is well", async () => {
  const stopping = new AbortController();
  let looks = 0;
  const events = await work(
    [
      repositoryThat("broken", () => Promise.reject(new Error("no such table"))),
      repositoryThat("well", async () => {
        looks += 1;
        if (looks === 4) stopping.abort();
        return [];
      }),
    ],
    stopping.signal,
  );
  expect(events.filter(({ kind }) => kind === "problem")).toEqual([{ kind: "problem", problem: "no such table" }]);
});

test("a worker that must end leaves the queue at once, also while a store does not answer", async () => {
  const stopping = new AbortController();
  let answer = (): void => {};
  const silent = new Promise<readonly []>((resolve) => (answer = () => resolve([])));
  const ask = (): Promise<readonly []> => {
    stopping.abort();
    return silent;
  };
  // The store answers only after the worker has left.
  const events = await work([repositoryThat("silent", ask)], stopping.signal, async () => answer());
  expect(events.map(({ kind }) => kind)).toEqual(["joined", "draining", "left"]);
});

test("a remote that hangs does not keep the worker from comparing the queue with its stores", async () => {
  const stopping = new AbortController();
  const submission = { queue: "q", repository: "r", priority: 0, needs: [], host: null, at: null };
  const run = { run: { id: "r-1", entries: 1 }, status: { kind: "queued", holder: null }, submitted: true };
  let [isHung, looks] = [false, 0];
  const holdfast = {
    store: {
      id: "s",
      now: async () => 0,
      getMeta: async (key: string) => (key.startsWith("submitted/") ? submissionText(submission) : ""),
    },
    async unfinished() {
      looks += isHung ? 1 : 0;
      if (looks === 3) stopping.abort();
      return [run];
    },
    files: {
      unpushed: async () => ({ remote: "origin", snapshots: 1, problem: null }),
      async push(_: string, { signal }: { readonly signal: AbortSignal }) {
        isHung = true;
        await once(signal, "abort");
      },
    },
  };
  const repository = { root: "/r", store: null, holdfast: holdfast as object as Holdfast };
  const events = await work([repository], stopping.signal);
  expect(events.map(({ kind }) => kind)).toEqual(["joined", "draining", "left"]);
});

test("a worker to which the queue brings no work leaves, and ends with the error", async () => {
  const failed = Promise.resolve(new Error("no such table"));
  const events: WorkerEvent[] = [];
  const drained: string[] = [];
  const repositories = [repositoryThat("well", async () => [])];
  const drain = async (): Promise<void> => void drained.push("w");
  await expect(work(repositories, new AbortController().signal, drain, { failed, events })).rejects.toThrow(
    "no such table",
  );
  expect(events.map(({ kind }) => kind)).toEqual(["joined", "draining", "left"]);
  expect(drained).toEqual(["w"]);
});
