import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type DispatchFacts,
  type WorkerFacts,
  deadWorkers,
  hasLabels,
  planDispatch,
  roomFor,
} from "./plan-dispatch.ts";

const DEAD_MS = 30_000;
const worker = (id: string, more: Partial<WorkerFacts> = {}): WorkerFacts => ({
  id,
  labels: [],
  slots: 2,
  draining: false,
  heartbeatAgeMs: 0,
  ...more,
});
const facts = (more: Partial<DispatchFacts>): DispatchFacts => ({
  workers: [],
  active: [],
  limits: {},
  deadMs: DEAD_MS,
  punctual: true,
  ...more,
});
const due = (run: string, more: object = {}) => ({ run, queue: "q", repository: "r", needs: [], ...more });

test.each([
  ["a heartbeat in time", 29_000, true, []],
  ["an old heartbeat", 31_000, true, ["a"]],
  ["a heartbeat far in the future, of a clock that was set back", -31_000, true, ["a"]],
  ["an old heartbeat, seen by a process that was late itself", 31_000, false, []],
])("%s", (_, heartbeatAgeMs, punctual, dead) => {
  expect(deadWorkers(facts({ workers: [worker("a", { heartbeatAgeMs })], punctual }))).toEqual(dead);
});

test("a worker that is not in the table is dead", () => {
  const active = [{ ...due("1"), worker: "gone" }];
  expect(deadWorkers(facts({ workers: [worker("a")], active, punctual: false }))).toEqual(["gone"]);
});

test("work spreads over the workers, the one with the most free slots first", () => {
  const workers = [worker("a", { slots: 1 }), worker("b", { slots: 3 })];
  const plan = planDispatch(
    facts({ workers }),
    ["1", "2", "3", "4", "5"].map((run) => due(run)),
  );
  expect(plan.map((one) => `${one.run} ${one.worker}`)).toEqual(["1 b", "2 b", "3 a", "4 b"]);
});

test("a worker that drains or has been silent for a while gets nothing new", () => {
  const workers = [worker("a", { draining: true }), worker("b", { heartbeatAgeMs: 16_000 })];
  expect(planDispatch(facts({ workers }), [due("1")])).toEqual([]);
});

test("a name of an object's own methods is an ordinary queue", () => {
  const limits = { queues: {}, perQueue: 1 };
  const plan = planDispatch(
    facts({ workers: [worker("a")], limits }),
    ["1", "2"].map((run) => due(run, { queue: "constructor" })),
  );
  expect(plan).toHaveLength(1);
});

const label = fc.constantFrom("x", "y", "z");
const name = fc.constantFrom("p", "q", "r");
const limit = fc.option(fc.nat(3), { nil: undefined });

test("no plan exceeds a limit or a slot, and none leaves an entry that could be executed", () => {
  const given = fc.record({
    workers: fc.uniqueArray(
      fc.record({
        id: fc.constantFrom("a", "b", "c", "d"),
        labels: fc.uniqueArray(label),
        slots: fc.nat(4),
        draining: fc.boolean(),
        heartbeatAgeMs: fc.constantFrom(0, 20_000, 40_000),
      }),
      { selector: ({ id }) => id },
    ),
    active: fc.array(
      fc.record({
        run: fc.constant("old"),
        queue: name,
        repository: name,
        needs: fc.uniqueArray(label, { maxLength: 2 }),
        worker: fc.constantFrom("a", "b", "gone"),
      }),
    ),
    due: fc.array(fc.record({ queue: name, repository: name, needs: fc.uniqueArray(label, { maxLength: 2 }) })),
    perQueue: limit,
    perRepository: limit,
    own: limit,
    perX: limit,
  });
  fc.assert(
    fc.property(given, ({ workers, active, perQueue, perRepository, own, perX, ...more }) => {
      const limits = {
        ...(perQueue === undefined ? {} : { perQueue }),
        ...(perRepository === undefined ? {} : { perRepository }),
        queues: own === undefined ? {} : { p: own },
        labels: perX === undefined ? {} : { x: perX },
      };
      const entries = more.due.map((entry, n) => ({ ...entry, run: `run-${n}` }));
      const all = facts({ workers, active, limits });
      const room = roomFor(all);
      const plan = planDispatch(all, entries);
      const assigned = plan.map(({ run, worker: id }) => {
        const entry = entries.find((one) => one.run === run);
        if (entry === undefined) throw new Error(`${run} was not due`);
        return { ...entry, worker: id };
      });
      const after = [...active, ...assigned];
      const limitOf = (queue: string): number => (queue === "p" ? own : undefined) ?? perQueue ?? Infinity;
      const isQueueFull = (queue: string): boolean =>
        after.filter((one) => one.queue === queue).length >= limitOf(queue);
      const isRepositoryFull = (repository: string): boolean =>
        after.filter((one) => one.repository === repository).length >= (perRepository ?? Infinity);
      const withX = after.filter(({ needs }) => needs.includes("x")).length;
      const free = workers.filter(
        ({ id, slots, draining, heartbeatAgeMs }) =>
          !draining && heartbeatAgeMs <= DEAD_MS / 2 && after.filter((one) => one.worker === id).length < slots,
      );
      expect(new Set(plan.map(({ run }) => run)).size).toBe(plan.length);
      for (const entry of assigned) {
        const found = workers.find(({ id }) => id === entry.worker);
        expect(hasLabels(found?.labels ?? [], entry.needs)).toBe(true);
        expect(after.filter((one) => one.worker === entry.worker).length).toBeLessThanOrEqual(found?.slots ?? 0);
        expect(after.filter((one) => one.queue === entry.queue).length).toBeLessThanOrEqual(limitOf(entry.queue));
        expect(after.filter((one) => one.repository === entry.repository).length).toBeLessThanOrEqual(
          perRepository ?? Infinity,
        );
        if (entry.needs.includes("x")) expect(withX).toBeLessThanOrEqual(perX ?? Infinity);
        expect(entry.needs.some((need) => room.fullLabels.has(need))).toBe(false);
        expect([room.fullQueues.includes(entry.queue), room.fullRepositories.includes(entry.repository)]).toEqual([
          false,
          false,
        ]);
      }
      for (const entry of entries.filter(({ run }) => !plan.some((one) => one.run === run)))
        expect(
          isQueueFull(entry.queue) ||
            isRepositoryFull(entry.repository) ||
            (entry.needs.includes("x") && withX >= (perX ?? Infinity)) ||
            !free.some(({ labels }) => hasLabels(labels, entry.needs)),
        ).toBe(true);
    }),
  );
});
