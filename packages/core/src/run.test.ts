import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import {
  type Address,
  type BeginRequest,
  RERUN_OF,
  READABLE_ID,
  RUN_ID,
  type RunState,
  type RunSummary,
  type Work,
  checkTagName,
  makeRunId,
  numberedId,
  parseAddress,
  planBegin,
  runTrailersOf,
  withRunTrailer,
} from "./run.ts";

describe("address", () => {
  test.each<[string, Address]>([
    ["issue-42-k3f9", { run: "issue-42-k3f9", at: { kind: "none" } }],
    ["issue-42-k3f9@7", { run: "issue-42-k3f9", at: { kind: "sequence", sequence: 7 } }],
    ["issue-42-k3f9@latest", { run: "issue-42-k3f9", at: { kind: "latest" } }],
    ["issue-42-k3f9@before-refactor", { run: "issue-42-k3f9", at: { kind: "tag", name: "before-refactor" } }],
    ["@7", { run: null, at: { kind: "sequence", sequence: 7 } }],
    ["@latest", { run: null, at: { kind: "latest" } }],
    ["@v1.0", { run: null, at: { kind: "tag", name: "v1.0" } }],
  ])("%s", (text, address) => {
    expect(parseAddress(text)).toEqual(address);
  });

  test.each([
    "",
    "@",
    "run@",
    "run@0",
    "run@007",
    "run@99999999999999999999",
    "run@-1",
    "run@1.5.",
    "run@a..b",
    "run@a@b",
    "run@Latest",
    "run@x.lock",
    "Run",
    "-run",
    "run-",
    "a/b",
    "../x",
    "run\n",
    "run@1\n",
    "run@tag ",
    "r".repeat(64),
    `run@${"t".repeat(65)}`,
  ])("%j is refused as usage, with a hint", (text) => {
    try {
      parseAddress(text);
    } catch (error) {
      expect(error).toBeInstanceOf(HoldfastError);
      expect(error).toMatchObject({ code: "USAGE", hint: expect.stringContaining("RUN@7") });
      return;
    }
    throw new Error("was accepted");
  });

  test("every text is either refused or has exactly one notation", () => {
    const near = fc.stringMatching(/^[a-z0-9-]{0,6}@?[A-Za-z0-9._-]{0,6}$/);
    fc.assert(
      fc.property(fc.oneof(fc.string(), near), (text) => {
        let address: Address;
        try {
          address = parseAddress(text);
        } catch (error) {
          expect(error).toMatchObject({ code: "USAGE" });
          return;
        }
        const { run, at } = address;
        const end = { none: "", latest: "@latest", sequence: "@", tag: "@" }[at.kind];
        const rest = at.kind === "sequence" ? String(at.sequence) : at.kind === "tag" ? at.name : "";
        expect(`${run ?? ""}${end}${rest}`).toBe(text);
      }),
    );
  });

  test("a tag that is accepted can be addressed, and is not taken for a sequence or latest", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[A-Za-z0-9._-]{1,8}$/), fc.constant("latest")), (name) => {
        try {
          checkTagName(name);
        } catch (error) {
          expect(error).toMatchObject({ code: "USAGE" });
          expect(kindOf(`run@${name}`)).not.toBe("tag");
          return;
        }
        expect(parseAddress(`run@${name}`).at).toEqual({ kind: "tag", name });
      }),
    );
  });

  function kindOf(text: string): string {
    try {
      return parseAddress(text).at.kind;
    } catch {
      return "refused";
    }
  }

  test.each(["7", "0", "latest", "LATEST", "", ".hidden", "a/b", "a b", "ends.", "x.lock", "a..b"])(
    "%j cannot be a tag",
    (name) => {
      expect(() => checkTagName(name)).toThrow(/cannot be a tag/);
    },
  );
});

describe("plan begin", () => {
  const ISSUE: Work = { kind: "issue", number: 1 };
  const TASK: Work = { kind: "task", text: "Fix it" };
  const DONE: RunState = { kind: "done", at: "2026-01-01T00:00:00Z" };
  const FAILED: RunState = { kind: "failed", at: "2026-01-01T00:00:00Z", reason: "no" };
  const OPEN: RunState = { kind: "active" };

  function run(id: string, more: Partial<RunSummary> = {}): RunSummary {
    return {
      id,
      createdAt: "2026-01-01T00:00:00Z",
      workflow: "impl",
      work: ISSUE,
      forkedFrom: null,
      labels: {},
      state: OPEN,
      unfinishedRestore: null,
      checkpoints: 1,
      latest: null,
      entries: 1,
      ...more,
    };
  }

  function request(more: Partial<BeginRequest> = {}): BeginRequest {
    const work = more.work ?? ISSUE;
    const stem = work.kind === "issue" ? `issue-${work.number}` : "fix-it";
    return {
      workflow: "impl",
      work,
      id: null,
      again: false,
      nameOf: (count) => numberedId(more.id ?? stem, count),
      ...more,
    };
  }

  describe("the same work", () => {
    test("starts if there is no run of it", () => {
      expect(planBegin([], request())).toEqual({ kind: "begin", id: "issue-1" });
      expect(planBegin([run("issue-2", { work: { kind: "issue", number: 2 } })], request())).toMatchObject({
        kind: "begin",
      });
    });

    test.each([DONE, FAILED, { ...FAILED, kind: "aborted" } as const])(
      "returns the run that has ended (%j)",
      (state) => {
        const ended = run("issue-1", { state });
        expect(planBegin([ended], request())).toEqual({ kind: "ended", run: ended });
        expect(planBegin([ended], request({ again: true }))).toEqual({ kind: "begin", id: "issue-1-2" });
      },
    );

    test("continues the unfinished run, also with `again` and also beside one that has ended", () => {
      const runs = [run("issue-1-2"), run("issue-1", { state: DONE })];
      expect(planBegin(runs, request())).toEqual({ kind: "continue", id: "issue-1-2" });
      expect(planBegin(runs, request({ again: true }))).toEqual({ kind: "continue", id: "issue-1-2" });
    });

    test("of a task in words, `again` begins another run although one is unfinished", () => {
      const runs = [run("fix-it", { work: TASK })];
      expect(planBegin(runs, request({ work: TASK }))).toEqual({ kind: "continue", id: "fix-it" });
      expect(planBegin(runs, request({ work: TASK, again: true }))).toEqual({ kind: "begin", id: "fix-it-2" });
    });

    test("is found by workflow and issue or text, whatever the run's id", () => {
      const named = run("mine", { state: DONE });
      expect(planBegin([named], request())).toEqual({ kind: "ended", run: named });
      expect(planBegin([named], request({ workflow: "crunch" }))).toEqual({ kind: "begin", id: "issue-1" });
      expect(planBegin([named], request({ id: "other" }))).toEqual({ kind: "begin", id: "other" });
    });

    test("with its own id is found by that alone", () => {
      const mine = run("mine", { state: DONE });
      expect(planBegin([mine], request({ id: "mine" }))).toEqual({ kind: "ended", run: mine });
      expect(planBegin([mine], request({ id: "mine", again: true }))).toEqual({ kind: "begin", id: "mine-2" });
      // The store refuses an id that belongs to other work.
      expect(planBegin([run("mine", { workflow: "crunch", state: DONE })], request({ id: "mine" }))).toEqual({
        kind: "continue",
        id: "mine",
      });
    });

    test("is not a rerun of it, and an unfinished fork does not continue it", () => {
      const rerun = run("again", { state: DONE, labels: { [RERUN_OF]: "issue-1" } });
      expect(planBegin([rerun], request())).toEqual({ kind: "begin", id: "issue-1" });
      const fork = run("fork", { forkedFrom: { id: "issue-1@3", digest: "x" } });
      const done = run("issue-1", { state: DONE });
      expect(planBegin([fork, done], request())).toEqual({ kind: "ended", run: done });
    });
  });

  test("a supervisor that repeatedly starts the same work gets one run, whatever its result", () => {
    const step = fc.constantFrom("start", "crash", "done", "fatal", "wait");
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.constantFrom(ISSUE, TASK), (steps, work) => {
        let runs: readonly RunSummary[] = [];
        for (const what of steps) {
          if (what === "start") {
            const plan = planBegin(runs, request({ work }));
            if (plan.kind === "begin") runs = [run(plan.id, { work, checkpoints: 0 }), ...runs];
          } else {
            const state: RunState = what === "done" ? DONE : what === "fatal" ? FAILED : OPEN;
            runs = runs.map((one) => ({ ...one, state, checkpoints: one.checkpoints + 1 }));
          }
        }
        expect(runs.length).toBeLessThanOrEqual(1);
      }),
    );
  });

  test("numbered ids are run ids", () => {
    fc.assert(
      fc.property(
        fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/),
        fc.integer({ min: 1, max: 5000 }),
        (id, count) => {
          fc.pre(RUN_ID.test(id));
          expect(numberedId(id, count)).toMatch(RUN_ID);
        },
      ),
    );
    expect(numberedId("issue-1", 1)).toBe("issue-1");
    expect(numberedId("issue-1", 2)).toBe("issue-1-2");
  });
});

describe("run id", () => {
  const task = (text: string) => makeRunId({ work: { kind: "task", text }, random: "k3f9" });

  test("an issue, a task and neither give a readable id", () => {
    expect(makeRunId({ work: { kind: "issue", number: 42 }, random: "k3f9" })).toBe("issue-42-k3f9");
    expect(makeRunId({ work: { kind: "issue", number: 1 }, random: "k3f9" })).toBe("issue-1-k3f9");
    expect(task("Fix login bug")).toBe("fix-login-bug-k3f9");
    expect(makeRunId({ work: { kind: "none" }, random: "k3f9" })).toBe("run-k3f9");
  });

  test.each([
    ["../../etc/passwd", "etc-passwd-k3f9"],
    ["$(rm -rf /); `id`", "rm-rf-id-k3f9"],
    ["--upload-pack=evil", "upload-pack-evil-k3f9"],
    ["Überprüfe die Größe", "uberprufe-die-gro-e-k3f9"],
    ["ログインを直す", "task-k3f9"],
    ["", "task-k3f9"],
    ["a\0b\nc", "a-b-c-k3f9"],
    ["x".repeat(10_000), `${"x".repeat(23)}-k3f9`],
  ])("task text %j becomes %s", (text, id) => {
    expect(task(text)).toBe(id);
  });

  test("a text without an ASCII letter still gives a complete id (AIWG: ralph--2aee878f)", () => {
    expect(task("修复登录 🐛 — !!")).toBe("task-k3f9");
  });

  test("long texts end at a word, not in the middle of one", () => {
    expect(task("please make the settings page remember the chosen language")).toBe("please-make-the-k3f9");
  });

  test("any text and any random part give an id that fits RUN_ID and is an address of itself", () => {
    const random = fc.stringMatching(/^[a-z0-9]{4,16}$/);
    const work = fc.oneof(
      fc.record({ kind: fc.constant("task" as const), text: fc.string({ unit: "binary" }) }),
      fc.record({ kind: fc.constant("issue" as const), number: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }) }),
    );
    fc.assert(
      fc.property(work, random, (some, part) => {
        const id = makeRunId({ work: some, random: part });
        expect(id).toMatch(RUN_ID);
        expect(parseAddress(id)).toEqual({ run: id, at: { kind: "none" } });
        if (some.kind === "task") expect(id.length).toBeLessThanOrEqual(READABLE_ID);
      }),
    );
  });

  test.each([0, -1, 1.5, Number.NaN, 1e300])("issue number %d is refused", (number) => {
    expect(() => makeRunId({ work: { kind: "issue", number }, random: "k3f9" })).toThrow(/issue number/);
  });

  test.each(["", "abc", "K3F9", "a-b-c", "ä123", "a".repeat(17)])("random part %j is refused", (random) => {
    expect(() => makeRunId({ work: { kind: "none" }, random })).toThrow(/random part/);
  });
});

describe("trailer", () => {
  test.each([
    ["Fix it", "Fix it\n\nHoldfast-Run: r1\n"],
    ["Fix it\n\nBecause.\n", "Fix it\n\nBecause.\n\nHoldfast-Run: r1\n"],
    ["Fix it\r\n\r\nBecause.\r\n", "Fix it\n\nBecause.\n\nHoldfast-Run: r1\n"],
    ["Fix: it", "Fix: it\n\nHoldfast-Run: r1\n"],
    ["Fix \u202e\u001b]0;x\u0007it\n\na\tcode\u2069", "Fix ]0;xit\n\na\tcode\n\nHoldfast-Run: r1\n"],
    ["Fix it\n\nHoldfast\u0007-Run: other", "Fix it\n\nHoldfast-Run: r1\n"],
    ["Fix it\n\nRefs: #1\nSigned-off-by: A", "Fix it\n\nRefs: #1\nSigned-off-by: A\nHoldfast-Run: r1\n"],
    ["Fix it\n\nholdfast-run: other\nRefs: #1", "Fix it\n\nRefs: #1\nHoldfast-Run: r1\n"],
    ["Holdfast-Run: other", "Holdfast-Run: r1\n"],
    ["Fix it\r\nHoldfast-Run: other\r", "Fix it\n\nHoldfast-Run: r1\n"],
  ])("%j", (message, expected) => {
    expect(withRunTrailer(message, "r1")).toBe(expected);
    expect(withRunTrailer(expected, "r1")).toBe(expected);
    expect(runTrailersOf(expected)).toEqual(["r1"]);
  });

  test("any message names exactly the run afterwards", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary" }),
        fc.constantFrom("", "\nHoldfast-Run: x\n", "\r\nHoldfast-Run:y"),
        (a, b) => {
          expect(runTrailersOf(withRunTrailer(a + b + a, "r1"))).toEqual(["r1"]);
        },
      ),
    );
  });

  test("a squash names each run once; a value that is not a run id is ignored", () => {
    const text = "* a\n\nHoldfast-Run: r1\n\n* b\n\n  Holdfast-Run: r2\r\nHoldfast-Run: r1\nHoldfast-Run: ../x";
    expect(runTrailersOf(text)).toEqual(["r1", "r2"]);
  });
});
