import type { Action } from "@holdfast/dashboard/api";
import type { RunSummary } from "@holdfast/core/run";
import type { RunStatus } from "@holdfast/core/status";
import { expect, test } from "vitest";
import { loadCommand } from "../cli/command-table.ts";
import type { CommandSpec } from "../cli/command.ts";
import { parseArguments, splitCommand } from "../cli/parse-arguments.ts";
import {
  allowedActions,
  checkpointActions,
  commandText,
  commandsOf,
  dryRunOf,
  parseAction,
  parseKey,
} from "./actions.ts";

const run = "shop/issue-42";

const TABLE: readonly (readonly [Action, string, string | null])[] = [
  [
    { kind: "answer", run, question: "q", answer: "yes please", note: null, resume: true },
    "holdfast approve issue-42 'yes please' && holdfast resume issue-42 --detach",
    "holdfast approve issue-42",
  ],
  [
    { kind: "answer", run, question: "q", answer: "yes", note: "it's fine", resume: false },
    "holdfast approve issue-42 yes '--note=it'\\''s fine'",
    "holdfast approve issue-42",
  ],
  [{ kind: "pause", run }, "holdfast stop issue-42 --reason 'paused on the page'", null],
  [{ kind: "abort", run }, "holdfast stop issue-42 --now", null],
  [{ kind: "checkpoint", run }, "holdfast checkpoint issue-42", "holdfast checkpoint issue-42 --dry-run"],
  [{ kind: "remove", run }, "holdfast rm issue-42", "holdfast rm issue-42 --dry-run"],
  [
    { kind: "resume", run, accept: ["files_changed=put_back"], from: null },
    "holdfast resume issue-42 --accept files_changed=put_back --detach",
    "holdfast resume issue-42 --accept files_changed=put_back --dry-run",
  ],
  [
    { kind: "resume", run, accept: ["files_changed"], from: 20 },
    "holdfast resume issue-42@20 --force --accept files_changed --detach",
    "holdfast resume issue-42@20 --force --accept files_changed --dry-run",
  ],
  [
    { kind: "raise", run, limit: "microUsd", to: 7_500_000 },
    "holdfast resume issue-42 --max-cost 7.5 --detach",
    "holdfast resume issue-42 --max-cost 7.5 --dry-run",
  ],
  [
    { kind: "raise", run, limit: "milliseconds", to: 90_000 },
    "holdfast resume issue-42 --max-total-time 2m --detach",
    "holdfast resume issue-42 --max-total-time 2m --dry-run",
  ],
  [
    { kind: "restore", run, sequence: 3, paths: ["--yes", "a b", "--detach"] },
    "holdfast restore issue-42@3 --yes -- --yes 'a b' --detach",
    "holdfast restore issue-42@3 --dry-run -- --yes 'a b' --detach",
  ],
  [
    { kind: "fork", run, sequence: 3, as: "other-way" },
    "holdfast fork issue-42@3 --as other-way",
    "holdfast fork issue-42@3 --as other-way --dry-run",
  ],
  [
    { kind: "tag", run, sequence: 3, name: "works" },
    "holdfast tag issue-42@3 works",
    "holdfast tag issue-42@3 works --dry-run",
  ],
  [
    { kind: "untag", run, sequence: 3, name: "works" },
    "holdfast tag issue-42 works --delete",
    "holdfast tag issue-42 works --delete --dry-run",
  ],
  [{ kind: "choose", run, others: ["shop/other"] }, "holdfast compare issue-42 other --choose issue-42", null],
  [
    { kind: "cherry_pick", from: "shop/other", sequence: 7, into: run, paths: ["-x", "src", "--detach", "*"] },
    "holdfast cherry-pick other@7 --into issue-42 -- -x src --detach ':(literal)*'",
    "holdfast cherry-pick other@7 --into issue-42 --dry-run -- -x src --detach ':(literal)*'",
  ],
];

const SHOP = { root: "/home/me/shop", store: "/home/me/shop/.git/holdfast" };

test("a command names its repository, and its store unless it is the usual one", () => {
  expect(commandText(SHOP, ["status", "a"])).toBe("holdfast --cwd /home/me/shop status a");
  expect(commandText({ root: "/it's mine", store: "/state" }, ["approve", "a", "so so"], ["resume", "a"])).toBe(
    String.raw`holdfast --cwd '/it'\''s mine' --store /state approve a 'so so' && holdfast --cwd '/it'\''s mine' --store /state resume a`,
  );
});

test.each(TABLE)("%j is one command of the CLI", (action, command, dryRun) => {
  const text = (commands: readonly (readonly string[])[]): string =>
    commandText(SHOP, ...commands).replaceAll(" --cwd /home/me/shop", "");
  expect(text(commandsOf(action, "impl"))).toBe(command);
  const dry = dryRunOf(action, "impl");
  expect(dry === null ? null : text([dry])).toBe(dryRun);
  // What a page sends back is what it got.
  expect(parseAction(JSON.parse(JSON.stringify(action)))).toEqual(action);
});

const LIMITS = ["microUsd", "tokens", "milliseconds", "iterations"] as const;

test.each([
  ["impl", "max-iterations"],
  ["ralph", "max"],
  ["crunch", null],
  ["manual", null],
])("every action on a run of %s is a command line that parses", async (workflow, raise) => {
  const raises = LIMITS.map((limit): Action => ({ kind: "raise", run, limit, to: 5_000_000 }));
  for (const action of [...TABLE.map(([one]) => one), ...raises]) {
    if (action.kind === "raise" && action.limit === "iterations" && raise === null) {
      expect(() => commandsOf(action, raise)).toThrow(/No limit of iterations/);
      continue;
    }
    const dry = dryRunOf(action, raise);
    for (const argv of [...commandsOf(action, raise), ...(dry === null ? [] : [dry])]) {
      const { name = "", rest } = splitCommand(argv, []);
      const spec: CommandSpec | undefined = (await loadCommand(name))?.spec;
      if (spec === undefined) throw new Error(`there is no command ${name}`);
      expect(() => parseArguments(spec, rest), argv.join(" ")).not.toThrow();
      // The help of a flag for one workflow begins with its name.
      const flags = rest
        .slice(0, [...rest, "--"].indexOf("--"))
        .flatMap((word) => /^--([a-z-]+)/.exec(word)?.[1] ?? []);
      for (const flag of flags) {
        const [, only] = /^(impl|crunch|ralph): /.exec(spec.flags[flag]?.about ?? "") ?? [];
        expect(only ?? workflow, `--${flag}`).toBe(workflow);
      }
    }
  }
});

test.each([
  null,
  [],
  { kind: "pause" },
  { kind: "pause", run: "issue-42" },
  { kind: "pause", run: "shop/../issue-42" },
  { kind: "pause", run: "shop/Issue 42" },
  { kind: "restore", run, sequence: 0, paths: null },
  { kind: "restore", run, sequence: 1.5, paths: null },
  { kind: "restore", run, sequence: 1, paths: ["a/../../b"] },
  { kind: "restore", run, sequence: 1, paths: ["/etc"] },
  { kind: "restore", run, sequence: 1, paths: ["a\0b"] },
  { kind: "restore", run, sequence: 1, paths: Array.from({ length: 101 }, () => "a") },
  { kind: "restore", run, sequence: 1, paths: [] },
  { kind: "cherry_pick", from: run, sequence: 1, into: "shop/other", paths: [] },
  { kind: "choose", run, others: [] },
  { kind: "choose", run, others: ["shop/other", run] },
  { kind: "tag", run, sequence: 1, name: "worktree" },
  { kind: "tag", run, sequence: 1, name: "latest" },
  { kind: "resume", run, accept: ["x --yolo"] },
  { kind: "raise", run, limit: "all", to: 1 },
  { kind: "raise", run, limit: "tokens", to: -1 },
])("%j is refused", (value) => {
  expect(() => parseAction(value)).toThrow();
});

test("an answer cannot be a flag", () => {
  expect(() =>
    commandsOf({ kind: "answer", run, question: "q", answer: "--by=x", note: null, resume: false }, "impl"),
  ).toThrow();
});

test.each(["shop", "/issue-42", "shop/", "shop/a/b", "../x/y", "shop/A"])("%s is not the key of a run", (key) => {
  expect(() => parseKey(key)).toThrow();
});

const LATEST = { sequence: 2, createdAt: "2026-11-18T07:00:00.000Z", stage: "impl", iteration: 1 };
const HOLDER = { label: "x", pid: 1, host: "h", epoch: 1, takenAt: "", heartbeatAt: "" };
const RUNNING = {
  starting: false,
  finishing: false,
  stopping: null,
  silentSince: null,
  suspended: false,
  hostKnown: true,
};

test.each<[RunStatus, readonly string[]]>([
  [{ kind: "running", holder: HOLDER, ...RUNNING }, ["Pause", "Save a checkpoint", "Abort"]],
  [{ kind: "running", holder: HOLDER, ...RUNNING, hostKnown: false }, []],
  [{ kind: "running", holder: HOLDER, ...RUNNING, stopping: "pause" }, ["Save a checkpoint", "Abort"]],
  [{ kind: "paused", reason: null, started: true }, ["Resume", "Save a checkpoint", "Abort"]],
  [{ kind: "crashed", certain: true, holder: HOLDER }, ["Resume", "Save a checkpoint", "Abort"]],
  [{ kind: "done", at: "" }, ["Save a checkpoint", "Remove"]],
  [{ kind: "failed", at: "", reason: "", limit: false }, ["Save a checkpoint", "Remove"]],
  [{ kind: "saved", holder: null }, ["Save a checkpoint", "Remove"]],
])("%j allows %j", (status, labels) => {
  const own = { latest: LATEST, forkedFrom: null, checkpoints: 2 };
  const actions = allowedActions({ key: run, status, run: own, restart: null });
  expect(actions.filter(({ why }) => why === null).map(({ label }) => label)).toEqual(labels);
  const [restore, fork] = checkpointActions({ key: run, status }, { sequence: 2, quarantined: false });
  expect(restore?.why === null).toBe(status.kind !== "running");
  expect(fork?.why).toBeNull();
});

test("a fork that has not run yet can be removed, and a held run names the host that holds it", () => {
  const forkedFrom = { id: "issue-1@2", digest: "d" } as RunSummary["forkedFrom"];
  const remove = (checkpoints: number) =>
    allowedActions({
      key: run,
      status: { kind: "paused", reason: null, started: true },
      run: { latest: LATEST, forkedFrom, checkpoints },
      restart: null,
    }).find(({ label }) => label === "Remove")?.why;
  expect(remove(1)).toBeNull();
  expect(remove(2)).toBe("It has not ended: abort it first.");
  const away = allowedActions({
    key: run,
    status: { kind: "running", holder: HOLDER, ...RUNNING, hostKnown: false },
    run: { latest: LATEST, forkedFrom: null, checkpoints: 2 },
    restart: null,
  });
  for (const { why } of away) expect(why).toMatch(/^A process on h works on it\./);
});
