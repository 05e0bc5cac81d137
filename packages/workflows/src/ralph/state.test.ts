import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Json, type JsonObject, deepFreeze } from "@holdfast/core/json";
import { type Turn, iterate } from "@holdfast/test-support/workflows/ralph-sample";
import { parseRalphOptions } from "./options.ts";
import {
  MAX_FINDINGS,
  MAX_ITERATIONS,
  MAX_REFUSED,
  type RalphEvent,
  type RalphState,
  initialRalphState,
  parseRalphEvent,
  parseRalphState,
  reduceRalph,
} from "./state.ts";

const options = parseRalphOptions({ task: "x", until: "npm test", detection: { burn: null } });
const failing = (...names: readonly string[]) =>
  [
    ...names.map((name) => ` FAIL  ${name}`),
    `      Tests  ${names.length} failed | 9 passed (${names.length + 9})`,
  ].join("\n");
const BEGUN: RalphEvent = { kind: "begun", loopId: "ralph-x-a1b2c3d4" };

function story(turns: readonly Turn[], from: RalphState = initialRalphState) {
  const events: RalphEvent[] = [];
  let state = from;
  for (const turn of turns) {
    const next = iterate(state, { options, turn });
    events.push(...next.events);
    state = next.state;
  }
  return { state, events };
}

const stored = <T extends Json>(value: T): Json => JSON.parse(JSON.stringify(value));
const fold = (events: readonly RalphEvent[], from = initialRalphState) =>
  events.reduce((state, event) => reduceRalph(state, parseRalphEvent(stored(event))), from);

const turn: fc.Arbitrary<Turn> = fc.record(
  {
    said: fc.constantFrom("Did a.", "## Learnings\n- one\n- two", ""),
    tokens: fc.nat({ max: 1000 }),
    tree: fc.constantFrom("t", "u", "v"),
    filesChanged: fc.nat({ max: 3 }),
    output: fc.constantFrom(failing("a"), failing("a", "b"), "boom", ""),
    outcome: fc.constantFrom<"completed" | "failed">("completed", "failed"),
  },
  { requiredKeys: ["output"] },
);

describe("a fold of events", () => {
  test("gives the same values from the journal as when they were recorded, and its values can be stored", () => {
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 8 }), (turns) => {
        const { state, events } = story(turns);
        expect(fold(events)).toEqual(state);
        expect(parseRalphState(JSON.parse(JSON.stringify(state)))).toEqual(state);
        expect(state.refused).toEqual([]);
      }),
      { numRuns: 50 },
    );
  });

  test("continues from any state in the middle to the same end", () => {
    fc.assert(
      fc.property(fc.array(turn, { minLength: 1, maxLength: 6 }), fc.nat(), (turns, cut) => {
        const { state, events } = story(turns);
        const at = cut % (events.length + 1);
        const middle = parseRalphState(JSON.parse(JSON.stringify(fold(events.slice(0, at)))));
        expect(fold(events.slice(at), middle)).toEqual(state);
      }),
      { numRuns: 50 },
    );
  });

  test("changes none of its input", () => {
    const { state, events } = story([{ output: failing("a") }]);
    for (const event of [BEGUN, ...events]) reduceRalph(deepFreeze(state), deepFreeze(event));
  });

  test("whatever the order, it takes every event, counts each iteration once and in order, and stays bounded", () => {
    const { events } = story([{ output: "a" }, { output: "b" }, { output: "c" }, {}]);
    const intervened: RalphEvent = { kind: "intervened", intervention: { kind: "rolled_back", at: 2, to: 1 } };
    const all = [BEGUN, { kind: "begun", loopId: "other" } as const, intervened, ...events];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...all), { maxLength: 60 }), (mixed) => {
        const state = fold(mixed);
        const numbers = state.iterations.map((one) => one.number);
        expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
        expect(state.totals.iterations).toBe(numbers.length);
        expect(state.refused.length).toBeLessThanOrEqual(MAX_REFUSED);
        expect(fold(mixed.slice(-1), state).iterations).toEqual(state.iterations);
        parseRalphState(JSON.parse(JSON.stringify(state)));
      }),
    );
  });
});

describe("single events", () => {
  test("a loop keeps its id", () => {
    const begun = reduceRalph(initialRalphState, BEGUN);
    expect(reduceRalph(begun, BEGUN)).toBe(begun);
    expect(reduceRalph(begun, { kind: "begun", loopId: "ralph-y-a1b2c3d4" })).toMatchObject({
      loopId: BEGUN.loopId,
      refused: [{ event: "begun" }],
    });
  });

  test("an interrupted iteration answers again, and the old verification is void", () => {
    const [answered, verified] = story([{ output: "x" }]).events;
    const again = fold([answered, verified, answered].filter((event) => event !== undefined));
    expect(again).toMatchObject({ answer: { number: 1 }, verification: null, iterations: [], refused: [] });
  });

  test("an unanswered iteration cannot be verified, an unverified one cannot be reflected on", () => {
    const [answered, verified, reflected] = story([{ output: "x" }]).events;
    for (const events of [[verified], [answered, reflected]]) {
      const state = fold(events.filter((event) => event !== undefined));
      expect(state.refused).toHaveLength(1);
      expect(state.iterations).toEqual([]);
    }
  });

  test("a finished unit is followed by the next; its attempts and failures are its own", () => {
    const { state } = story([{ output: failing("a") }, { output: failing("a") }]);
    expect(state).toMatchObject({ unit: 0, tries: 2, lastFailing: { names: ["a"] }, mostTests: 10 });
    expect(story([{}], state).state).toMatchObject({ unit: 1, tries: 0, lastFailing: null, mostTests: 10 });
  });

  test("a check that could not start keeps the known failures", () => {
    const { state } = story([{ output: failing("a") }, { check: { kind: "not_started", code: null } }]);
    expect(state).toMatchObject({ lastFailing: { names: ["a"] }, tries: 2, totals: { iterations: 2, failed: 1 } });
  });

  test("an intervention grants new attempts, once", () => {
    const { state } = story([{ output: "a" }, { output: "b" }]);
    const event: RalphEvent = { kind: "intervened", intervention: { kind: "answered", at: 2, answer: "continue" } };
    const after = reduceRalph(state, event);
    expect(after).toMatchObject({ tries: 0, interventions: [{ at: 2 }] });
    expect(reduceRalph(after, event)).toBe(after);
  });
});

test("a long run keeps its sums and a bounded list", () => {
  const { state, events } = story([{ output: "x", tokens: 7 }]);
  const reflected = events[2];
  if (reflected?.kind !== "reflected") throw new Error("The third event reflects");
  const { answer, verification } = state;
  if (answer === null || verification === null) throw new Error("They were recorded");
  let long = state;
  for (let number = 2; number <= MAX_ITERATIONS + 20; number += 1) {
    const finding = {
      kind: "stuck",
      iteration: number,
      sentence: "",
      evidence: { because: "no_change", iterations: [], common: null },
    } as const;
    const three: readonly RalphEvent[] = [
      { kind: "answered", answer: { ...answer, number } },
      { kind: "verified", verification: { ...verification, number } },
      { ...reflected, iteration: { ...reflected.iteration, number }, findings: [finding] },
    ];
    long = three.reduce(reduceRalph, long);
  }
  expect(long.iterations).toHaveLength(MAX_ITERATIONS);
  expect(long.findings).toHaveLength(MAX_FINDINGS);
  expect(long.totals).toMatchObject({ iterations: MAX_ITERATIONS + 20, tokens: 7 * (MAX_ITERATIONS + 20) });
});

describe("damaged data", () => {
  const { state, events } = story([{ output: failing("a"), said: "## Learnings\n- x" }, { output: failing("b") }]);
  const corrupt = expect.objectContaining({ code: "STORE_CORRUPT" });

  test("every field of the state is checked", () => {
    for (const name of Object.keys(state)) {
      expect(() => parseRalphState({ ...state, [name]: { nonsense: true } })).toThrow(corrupt);
      const { [name]: _, ...rest }: JsonObject = state;
      expect(() => parseRalphState(rest)).toThrow(corrupt);
    }
  });

  test("any replaced value is refused or valid, never anything else", () => {
    const paths = leaves(stored(state));
    fc.assert(
      fc.property(fc.constantFrom(...paths), fc.constantFrom<Json>(null, -1, 0.5, "x", [], {}, true), (path, value) => {
        const damaged: JsonObject = JSON.parse(JSON.stringify(state));
        put(damaged, path, value);
        try {
          parseRalphState(damaged);
        } catch (error) {
          expect(error).toMatchObject({ code: "STORE_CORRUPT" });
        }
      }),
      { numRuns: 300 },
    );
  });

  test("events are parsed as strictly", () => {
    for (const event of events) {
      expect(parseRalphEvent(stored(event))).toEqual(event);
      for (const name of Object.keys(event))
        expect(() => parseRalphEvent({ ...Object(event), [name]: 7 })).toThrow(corrupt);
    }
    for (const hostile of [null, 1, "begun", [], {}, { kind: "ended" }, { kind: "begun" }])
      expect(() => parseRalphEvent(hostile)).toThrow(corrupt);
  });
});

function leaves(value: Json, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== "object" || value === null) return [path];
  return Object.entries(value).flatMap(([key, below]) => leaves(below, [...path, key]));
}

function put(target: object, path: readonly string[], value: Json): void {
  const [key = "", ...rest] = path;
  const below: unknown = Reflect.get(target, key);
  if (rest.length === 0 || typeof below !== "object" || below === null) Reflect.set(target, key, value);
  else put(below, rest, value);
}
