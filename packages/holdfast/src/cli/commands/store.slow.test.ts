import { existsSync, readdirSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "@holdfast/platform/clock";
import { processIdentity } from "@holdfast/platform/identity";
import { leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { workSuite } from "@holdfast/test-support/cli-repositories";
import { postgresMissing, sharedPostgres } from "@holdfast/test-support/postgres-server";
import { openTestStore } from "@holdfast/test-support/test-stores";

const work = workSuite();
const HANG = { when: { role: "impl" }, edits: [{ do: "write", path: "half.txt", text: "half\n" }], hang: true };

describe("store copy with a run that a live process holds", () => {
  test("copies the other runs and names this one; a run that is named is refused", async () => {
    const place = await work.begin();
    for (const name of ["one", "two"]) await place.run("checkpoint", "--run", name);
    const child = place.holdfast.start(["run", "1", "--no-review", "--agent", await place.agent([HANG])], {
      cwd: place.clone,
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    while (!existsSync(`${place.clone}-worktrees/issue-1/half.txt`)) {
      expect(child.exitCode).toBeNull();
      await pause(50);
    }
    await place.run("checkpoint", "--run", "three");
    const [from, to] = [join(place.clone, ".git/holdfast"), join(place.clone, "../backup")];

    const named = await place.run("store", "copy", from, to, "one", "issue-1");
    expect(named).toMatchObject({ status: 5, stderr: expect.stringContaining("LEASE_HELD") as string });
    expect(existsSync(to)).toBe(false);

    const planned = await place.run("store", "copy", from, to, "--dry-run");
    expect(planned).toMatchObject({ status: 5, stdout: expect.stringContaining("Would copy 3 runs") as string });
    expect(existsSync(to)).toBe(false);

    const copied = await place.run("--json", "store", "copy", from, to);
    expect(copied.status, copied.stderr).toBe(5);
    const { runs, held } = JSON.parse(copied.stdout);
    expect(runs.map(({ run, result }: { run: string; result: string }) => [run, result])).toEqual(
      ["one", "two", "three"].map((run) => [run, "copied"]),
    );
    expect(held).toEqual([{ run: "issue-1", why: expect.stringContaining("being written by") as string }]);

    const { stdout } = await place.run("store", "copy", from, to);
    expect(stdout).toMatch(/^one .* same$/m);
    expect(stdout).toContain("Not copied: issue-1. ");

    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("close", resolve));
    const rest = await place.json("store", "copy", from, to);
    expect(rest.held).toEqual([]);
    expect(rest.runs).toContainEqual(expect.objectContaining({ run: "issue-1", result: "copied" }));
  });
});

test("store copy of a submitted run leaves it in its queue, puts the copy in none, and says how to move it", async () => {
  const place = await work.begin();
  const submit = ["submit", "--workflow", "ralph", "--until", "true", "--task", "one", "--agent", "command:true"];
  const { run } = await place.json(...submit);
  const [from, to] = [join(place.clone, ".git/holdfast"), join(place.clone, "../other")];
  const copied = await place.run("store", "copy", from, to);
  expect(copied.status, copied.stderr).toBe(0);
  const lines = [
    ["queue", "--cancel", run.id, "--store", from],
    ["submit", run.id, "--store", to],
  ].map((words) => [words, `holdfast ${words.join(" ")}`] as const);
  for (const [, line] of lines) expect(copied.stderr.replaceAll(/\s+/g, " ")).toContain(line);
  expect((await place.json("queue")).entries).toHaveLength(1);
  expect((await place.json("queue", "--store", to)).entries).toEqual([]);
  for (const [words] of lines) expect((await place.run(...words)).status).toBe(0);
  expect((await place.json("queue")).entries).toEqual([]);
  expect((await place.json("queue", "--store", to)).entries).toMatchObject([{ run: run.id }]);
});

describe.skipIf(postgresMissing() !== null)("store copy from PostgreSQL", () => {
  test("copies a run whose machine has sent no heartbeat for a minute, and no other of that machine", async () => {
    const place = await work.begin();
    const url = (await sharedPostgres()).url();
    const identity = { ...processIdentity(), host: "gone", boot: "another" };
    const old = await openTestStore(url, { identity, clock: { ...systemClock, now: () => Date.now() - 3_600_000 } });
    await save(old, await leasedRun(old, "dead"), { values: { n: 1 } });
    const live = await openTestStore(url, { identity });
    await save(live, await leasedRun(live, "live"), { values: { n: 1 } });
    // Closing a store releases its leases.
    onTestFinished(() => Promise.all([old.close(), live.close()]).then(() => undefined));
    const copied = await place.run("--json", "store", "copy", url, join(place.clone, "../backup"));
    expect(copied.status, copied.stderr).toBe(5);
    expect(JSON.parse(copied.stdout)).toMatchObject({
      runs: [{ run: "dead", result: "copied" }],
      held: [{ run: "live", why: expect.stringContaining("on gone") as string }],
    });
  });
});

describe("a mistyped URL is refused, and is neither shown nor taken for a directory:", () => {
  const URLS = [
    "postgers://holdfast:pw9secret@db.example/team",
    "jdbc:postgresql://holdfast:pw9secret@db.example/team",
  ];
  const [WRONG = ""] = URLS;
  const store = (url: string) => ({ env: { HOLDFAST_STORE: url }, file: "" });
  const dispatch = (url: string) => ({ env: { HOLDFAST_DISPATCH: url }, file: "" });
  const SUBMIT = ["submit", "--workflow", "ralph", "--until", "true", "--task", "one", "--agent", "command:true"];

  test("in variables, flags, the config file and operands", async () => {
    const place = await work.begin();
    await place.run("checkpoint", "--run", "one");
    const home = `${place.clone}.home`;
    await mkdir(home);
    const before = readdirSync(place.clone);
    const none = { env: {}, file: "" };
    const cases: readonly (readonly [readonly string[], { readonly env: object; readonly file: string }])[] = [
      ...URLS.flatMap((url) => [
        [SUBMIT, dispatch(url)] as const,
        [["queue"], dispatch(url)] as const,
        [["checkpoint"], store(url)] as const,
      ]),
      [["workers"], dispatch(WRONG)],
      [["worker", "--join", "--here"], dispatch(WRONG)],
      [["list"], store(WRONG)],
      [["--store", WRONG, "checkpoint"], none],
      [["--store", WRONG, "list"], none],
      [["checkpoint"], { env: {}, file: `store: ${WRONG}\n` }],
      [SUBMIT, { env: {}, file: `fleet: { dispatch: "${WRONG}" }\n` }],
      [["store", "copy", WRONG, "../backup"], none],
      [["store", "copy", ".git/holdfast", WRONG], none],
    ];
    for (const [args, { env, file }] of cases) {
      await writeFile(join(place.clone, "holdfast.config.yaml"), file);
      const ended = await place.holdfast.run(args, {
        cwd: place.clone,
        env: { HOME: home, HOLDFAST_TRUST: "1", ...env },
      });
      const what = `${args.join(" ")}: ${ended.stdout}${ended.stderr}`;
      expect(ended.status, what).toBe(2);
      expect(what.slice(args.join(" ").length)).not.toMatch(/pw9|secret/);
      expect(ended.stderr, what).toMatch(/is a URL of an unknown kind, (?:postgers|jdbc:postgresql):\/\/…/);
    }
    expect(readdirSync(place.clone).filter((name) => name !== "holdfast.config.yaml")).toEqual(before);
    expect(existsSync(join(place.clone, "../backup"))).toBe(false);
  });

  test("a directory with a colon in its name is one", async () => {
    const place = await work.begin();
    const made = await place.run("--store", "12:30/a", "checkpoint", "--run", "one");
    expect(made.status, made.stderr).toBe(0);
    expect(existsSync(join(place.clone, "12:30/a/store.db"))).toBe(true);
  });
});
