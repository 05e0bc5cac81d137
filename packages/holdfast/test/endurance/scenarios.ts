import type { JsonObject } from "@holdfast/core/json";
import type { FinalState } from "./final-state.ts";
import type { Budget } from "@holdfast/core/position";

/** One process after another, each to the end that is expected of it; a scenario is over with its last leg. */
export interface Leg {
  readonly options: JsonObject;
  readonly limit: Partial<Budget["limit"]>;
  /** Whether the resume raises the limit to that. */
  readonly raises: boolean;
  /** The workflow of one's own instead of `impl`. */
  readonly own: "effects" | "side-worktrees" | "crunch" | "ralph" | null;
  readonly ends: "done" | "failed" | "waiting";
}

export interface Scenario {
  readonly name: string;
  readonly answers: readonly JsonObject[];
  readonly legs: readonly Leg[];
  /** Command of the remote's CI; it runs in a checkout of the commit, four folders below the remote. */
  readonly ci: string | null;
  /** Another user's change to the base, which the CI command makes. */
  readonly moved: { readonly path: string; readonly text: string } | null;
  /** Whether agents work at the same time. One may then begin after the death of another was noticed. */
  readonly atOnce?: boolean;
  /** What the undisturbed run must show to be the one that the scenario is about; every killed one is compared with it. */
  readonly claims?: (calm: Pick<FinalState, "values" | "position" | "forge">) => readonly string[];
  /** Of the final files. */
  readonly expected: Readonly<Record<string, string>>;
}

const usage = { input: 300, output: 100, microUsd: 5000 };

function finish(iteration: number | null, text: string, body = "Why."): JsonObject {
  return {
    when: { role: "impl", ...(iteration === null ? {} : { iteration }) },
    // If the parent dies at the first edit, the edits after the pause are still outstanding.
    edits: [
      { do: "write", path: "greeting.txt", text: "half\n" },
      { do: "wait", ms: 40 },
      { do: "write", path: "greeting.txt", text },
      { do: "write", path: "lib/greet.js", text: `export const greeting = ${JSON.stringify(text)};\n` },
    ],
    finalize: { title: "[feat][#1] Add a greeting", body },
    commitReport: `Greet, ${iteration ?? "again"}`,
    reply: "I wrote a greeting.",
    usage,
  };
}

function score(value: number, iteration: number | null = null): JsonObject {
  return {
    when: { role: "review", ...(iteration === null ? {} : { iteration }) },
    scores: { faithful: value, style: value, docs: value, corner_cases: value },
    usage,
  };
}

const leg: Leg = { options: {}, limit: {}, raises: false, own: null, ends: "done" };
const plain = {
  legs: [leg],
  ci: null,
  moved: null,
  expected: { "greeting.txt": "hello\n" },
} satisfies Partial<Scenario>;
const MOVE_BASE = "git -C ../../../.. update-ref refs/heads/main refs/moved/main";
const watched: Leg = { ...leg, options: { waitForCi: true, ci: { pollMs: 20, rebaseWhenBehind: true } } };
const WORTH = [60, 75, 70, 65, 64];

export const SCENARIOS: readonly Scenario[] = [
  {
    ...plain,
    name: "happy path",
    answers: [finish(null, "hello\n"), score(95)],
    legs: [{ ...leg, options: { gate: "true" } }],
  },
  {
    ...plain,
    name: "review loop",
    answers: [finish(1, "helo\n"), finish(2, "hello\n"), { ...score(50, 1), reply: "It is misspelt." }, score(95)],
  },
  {
    ...plain,
    name: "rebase",
    answers: [finish(null, "hello\n"), score(95)],
    legs: [watched],
    ci: MOVE_BASE,
    moved: { path: "other.txt", text: "other\n" },
    expected: { "greeting.txt": "hello\n", "other.txt": "other\n" },
  },
  {
    ...plain,
    name: "conflict",
    answers: [
      finish(null, "hello\n"),
      score(95),
      {
        when: { role: "rebase" },
        edits: [
          { do: "write", path: "greeting.txt", text: "half\n" },
          { do: "wait", ms: 40 },
          { do: "write", path: "greeting.txt", text: "hello\nbase\n" },
        ],
        usage,
      },
    ],
    legs: [watched],
    ci: MOVE_BASE,
    moved: { path: "greeting.txt", text: "base\n" },
    expected: { "greeting.txt": "hello\nbase\n" },
  },
  {
    ...plain,
    name: "CI failure and fix",
    answers: [finish(1, "helo\n"), finish(2, "hello\n", "Why, and what CI printed."), score(95)],
    legs: [{ ...watched, options: { waitForCi: true, ci: { pollMs: 20 } } }],
    ci: "grep -q hello greeting.txt || { echo it is misspelt; exit 1; }",
  },
  {
    ...plain,
    name: "stuck",
    answers: [
      {
        when: { role: "impl" },
        edits: [{ do: "write", path: ".tmp/thoughts.txt", text: "hm\n" }],
        reply: "Hm.",
        usage,
      },
    ],
    legs: [{ ...leg, ends: "failed" }],
    expected: {},
  },
  {
    ...plain,
    name: "budget",
    answers: [{ ...finish(1, "helo\n"), finalize: undefined }, finish(null, "hello\n"), score(95)].map(clean),
    legs: [
      { ...leg, limit: { tokens: 400 }, ends: "waiting" },
      { ...leg, limit: { tokens: 9000 }, raises: true },
    ],
  },
  {
    ...plain,
    name: "comment and merge",
    answers: [],
    legs: [{ ...leg, own: "effects" }],
    expected: { "effect.txt": "done\n" },
  },
];

/** Reviews that go nowhere: the files of the best one are what is handed over. */
export const FALLING: Scenario = {
  ...plain,
  name: "scores 60, 75, 70, 65, 64",
  answers: WORTH.flatMap((value, index) => [finish(index + 1, `worth ${value}\n`), score(value, index + 1)]),
  legs: [{ ...leg, ends: "failed" }],
  expected: { "greeting.txt": "worth 75\n" },
};

function clean(answer: Readonly<Record<string, unknown>>): JsonObject {
  return JSON.parse(JSON.stringify(answer)) as JsonObject;
}

function edit(role: string, files: Readonly<Record<string, string>>): JsonObject {
  const half = `half-${role}.txt`;
  return {
    when: { role },
    edits: [
      { do: "write", path: half, text: "half\n" },
      { do: "wait", ms: 40 },
      ...Object.entries(files).map(([path, text]) => ({ do: "write", path, text })),
      { do: "delete", path: half },
    ],
    reply: `I am ${role}.`,
    usage,
  };
}

const LINES = "hello\n".repeat(9);

/** Agents in side worktrees, several at once. */
export const SIDE_WORKTREES: Scenario = {
  ...plain,
  name: "side-worktrees",
  answers: [
    edit("x", { "x.txt": "x\n", "readme.md": `by x\n${LINES}` }),
    edit("y", { "y/y.txt": "y\n" }),
    edit("z", { "z.txt": "z\n", "y.txt": "z\n" }),
    edit("p", { "x.txt": "p\n", "p.txt": "p\n" }),
    edit("q", { "x.txt": "q\n", "q.txt": "q\n" }),
    edit("first", { "t.txt": "one\n" }),
    edit("second", { "t2.txt": "two\n" }),
  ],
  legs: [{ ...leg, own: "side-worktrees" }],
  atOnce: true,
  expected: {
    "x.txt": "p\n",
    "readme.md": `by x\n${LINES}`,
    "y/y.txt": "y\n",
    "z.txt": "z\n",
    "y.txt": "z\n",
    "p.txt": "p\n",
    "t.txt": "one\n",
    "t2.txt": "two\n",
  },
};
