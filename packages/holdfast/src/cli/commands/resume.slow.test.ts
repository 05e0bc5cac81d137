import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, realpathSync, rmSync, statSync } from "node:fs";
import { copyFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { alterEntries, damageCheckpoints } from "@holdfast/test-support/edit-store";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";

describe("quota wait", () => {
  const work = workSuite();

  const limited = (attempt: number, untilMs = 4_000) => ({
    when: { role: "impl", attempt },
    fail: { cause: "rate_limit", untilMs, message: "usage limit reached" },
  });

  /** Kinds of journal entries, how often. */
  async function count(place: WorkPlace, kind: string): Promise<number> {
    const { entries } = await place.json("events", "issue-1", "--limit", "all");
    return entries.filter((entry: { readonly kind: string }) => entry.kind === kind).length;
  }

  test("waiting until a time, it prints the time; a killed waiter wakes no run, and of several waiters one wakes it, once", async () => {
    const place = await work.begin();
    // After the wait it fails at once for another reason, so a later process finds it waiting for something else.
    const agent = await place.agent([limited(1, 60_000), { when: { attempt: 2 }, fail: { cause: "auth" } }, GOOD]);
    expect(await place.run("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 7 });
    const { status } = (await place.json("status", "1")).run;
    const early = await place.run("resume", "1");
    expect(early).toMatchObject({ status: 7, stdout: expect.stringMatching(/answers again at .*Until/s) });
    const [killed, ...waiters] = [1, 2, 3].map(() => place.start("resume", "1", "--wait"));
    await new Promise((resolve) => killed?.child.stderr?.once("data", resolve));
    killed?.child.kill("SIGKILL");
    const ends = await Promise.all(waiters.map(({ ended }) => ended));
    const shown = JSON.stringify(ends, null, 2);
    expect(ends.map(({ status }) => status).toSorted(), shown).toEqual([4, 5]);
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(status.until));
    for (const { stderr } of ends) expect(stderr, shown).toMatch(/Waiting for issue-1 until /);
    expect(await count(place, "run.continued")).toBe(1);
    expect(await place.json("status", "1")).toMatchObject({ run: { status: { kind: "waiting", for: "you" } } });
  });

  test("a forge that is down at the moment of a resume does not shorten the wait for the provider", async () => {
    const place = await work.begin();
    const agent = await place.agent([limited(1, 3_600_000), GOOD]);
    expect(await place.run("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 7 });
    const { status } = (await place.json("status", "1")).run;
    await rename(place.remote, `${place.remote}.away`);
    const resumed = await place.run("resume", "1");
    expect(resumed, resumed.stdout + resumed.stderr).toMatchObject({ status: 7 });
    expect((await place.json("status", "1")).run.status).toEqual(status);
  });

  test("run --wait stays up through one limit after the other, and the run is done", async () => {
    const place = await work.begin();
    const agent = await place.agent([limited(1, 20_000), limited(2, 20_000), GOOD]);
    const done = await place.run("run", "1", "--no-review", "--wait", "--agent", agent);
    expect(done, JSON.stringify(done, null, 2)).toMatchObject({ status: 0 });
    expect(done.stderr.match(/Waiting for issue-1 until /g)).toHaveLength(2);
    expect([await count(place, "run.waiting"), await count(place, "run.continued")]).toEqual([2, 2]);
  });

  const RULE = { id: "quota", causes: ["rate_limit"], pattern: "usage limit", action: "fallback" };
  const CATEGORY = { id: "quota", pattern: "usage.?limit", type: "transient", severity: "high", action: "fallback" };

  test.each([
    ["the config", (agents: readonly string[]) => ({ fallback: { agents }, rules: [RULE] }), {}],
    [
      "a document of AIWG",
      () => ({ import: ".aiwg/error-handling.json" }),
      { strategy: "retry_then_fallback", classification: { categories: [CATEGORY] } },
    ],
  ])(
    "rules of %s decide: the other agent takes over, and output, log and list show it",
    async (_, errors, document) => {
      const place = await work.begin();
      const good = await place.agent([GOOD]);
      const second = good.replace("agent.json", "second.json");
      await copyFile(good.slice("scripted:".length), second.slice("scripted:".length));
      const agent = await place.agent([limited(1)]);
      mkdirSync(join(place.clone, ".aiwg"));
      const fallback = { enabled: true, agents: [{ primary: "claude", fallback: second }] };
      await writeFile(join(place.clone, ".aiwg/error-handling.json"), JSON.stringify({ ...document, fallback }));
      await writeFile(join(place.clone, "holdfast.config.yaml"), JSON.stringify({ errors: errors([second]) }));
      const done = await place.run("run", "1", "--no-review", "--agent", agent);
      expect(done, JSON.stringify(done, null, 2)).toMatchObject({ status: 0 });
      expect(done.stdout).toMatch(/usage limit reached; .*fallback by rule quota: scripted:\S+second.json takes over/);
      expect((await place.run("events", "issue-1", "--limit", "all")).stdout).toMatch(
        /step.failed +agent → fallback by rule quota \(/,
      );
    },
  );
});

describe("provider wait", () => {
  const work = workSuite();

  /** How each cause of a failed call appears to the user: exit code, wait, words. */
  const failing = (cause: string, more: object = {}) => ({
    when: { role: "impl" },
    fail: { cause, message: "scripted trouble", ...more },
  });

  test.each(sampleBySeed([["auth"], ["missing"], ["too_old"], ["context_too_long"], ["refusal"]], 1))(
    "%s waits for the user: exit 4",
    async (cause) => {
      const place = await work.begin();
      const agent = await place.agent([failing(cause)]);
      const waiting = await place.run("run", "1", "--no-review", "--agent", agent);
      expect(waiting.status, waiting.stdout + waiting.stderr).toBe(4);
      expect(waiting.stdout).toMatch(new RegExp(`Waiting for you issue-1: .*\\(${cause}\\): scripted\\s+trouble`, "s"));
      expect(waiting.stdout).toContain("holdfast resume issue-1");
      await place.agent([GOOD]);
      expect(await place.run("resume", "issue-1")).toMatchObject({ status: 0 });
    },
  );

  test.each(sampleBySeed([["overload"], ["network"], ["hang"], ["proxy"]], 1))(
    "%s waits for the provider, which is not quota: exit 7",
    async (cause) => {
      const place = await work.begin();
      await writeFile(join(place.clone, "holdfast.config.yaml"), "errors: { retry: { max: 0 } }\n");
      const agent = await place.agent([failing(cause)]);
      const waiting = await place.run("run", "1", "--no-review", "--agent", agent);
      expect(waiting.status, waiting.stdout + waiting.stderr).toBe(7);
      expect(waiting.stdout).toMatch(new RegExp(`Waiting for the provider issue-1: .*\\(${cause}\\)`, "s"));
      expect(waiting.stdout).not.toMatch(/quota|session/);
      const dry = await place.json("resume", "1", "--dry-run");
      expect(dry.uses).toMatchObject({ agents: [{ role: "impl", agent }], yolo: false });
      expect((await place.run("resume", "1", "--dry-run")).stdout).toContain(`Would use`);
      expect(await place.json("status", "1")).toMatchObject({
        run: { status: { for: "provider", until: expect.any(String) } },
      });
      // The time is when `--wait` tries again; a user need not wait for it.
      await place.agent([GOOD]);
      expect(await place.run("resume", "issue-1")).toMatchObject({ status: 0 });
    },
  );

  const TOO_OFTEN = [
    { name: "killed", role: "impl", cause: "killed" },
    { name: "crash", role: "review", cause: "crash" },
  ];
  test.each(sampleBySeed(TOO_OFTEN, 1))(
    "a $role call that ends with $cause once too often waits for the user, not for quota: exit 4",
    async (row) => {
      const { role, cause } = row;
      const place = await work.begin();
      await writeFile(join(place.clone, "holdfast.config.yaml"), "errors: { retry: { max: 0 } }\n");
      const failed = { when: { role }, fail: { cause, message: "scripted trouble" } };
      const agent = await place.agent([failed, ...(role === "impl" ? [] : [GOOD])]);
      const waiting = await place.run("run", "1", "--agent", agent);
      expect(waiting.status, waiting.stdout + waiting.stderr).toBe(4);
      expect(waiting.stdout).toMatch(new RegExp(`Waiting for you issue-1: .*\\(${cause}\\): scripted\\s+trouble`, "s"));
      expect(waiting.stdout).not.toMatch(/quota/);
      expect(await place.json("status", "1")).toMatchObject({ run: { status: { for: "you", until: null } } });
    },
  );
});

describe("full disk", () => {
  const work = workSuite();
  const REVIEW = { when: { role: "review" }, scores: { faithful: 95, style: 95, docs: 95, corner_cases: 95 } };
  const cannotMount = process.getuid?.() === 0 ? null : "only root may mount a small file system";

  interface FullDisk {
    readonly place: WorkPlace;
    /** What is stored on the small file system. */
    readonly full: string;
    readonly args: readonly string[];
    /** Fills it to the last byte, as the gate does. */
    fill(): void;
    /** Makes room again. */
    free(): void;
  }

  /**
   * The store, git's objects or the worktrees are on their own file system, which the run's gate fills to the last
   * byte.
   */
  async function fullDisk(what: "store" | "objects" | "worktrees"): Promise<FullDisk> {
    const place = await work.begin();
    const full = {
      store: join(place.clone, ".git/holdfast"),
      objects: join(place.clone, ".git/objects"),
      worktrees: join(place.clone, "..", "shop-worktrees"),
    }[what];
    const before = join(place.clone, "..", "before");
    mkdirSync(full, { recursive: true });
    cpSync(full, before, { recursive: true });
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", full], { stdio: "pipe" });
    onTestFinished(() => void execFileSync("umount", ["-l", full]));
    cpSync(before, full, { recursive: true });
    const filler = join(full, "filler");
    const once = join(place.clone, "..", "filled");
    const gate = join(place.clone, "..", "gate.sh");
    await writeFile(
      gate,
      `[ -e ${once} ] && exit 0\ntouch ${once}\ndd if=/dev/zero of=${filler} bs=64k 2>/dev/null\ndd if=/dev/zero of=${filler}2 bs=1k 2>/dev/null\nexit 0\n`,
    );
    const agent = await place.agent([GOOD, REVIEW]);
    return {
      place,
      full,
      args: ["run", "1", "--agent", agent, "--gate", `sh ${gate}`],
      fill: () => void execFileSync("sh", [gate]),
      free() {
        for (const path of [filler, `${filler}2`]) rmSync(path, { force: true });
      },
    };
  }

  test.skipIf(cannotMount !== null).each(sampleBySeed([["store"], ["objects"], ["worktrees"]], 1))(
    `a full disk below the %s: the run waits, says what needs space, and resume continues it (${cannotMount ?? "as root"})`,
    async (what) => {
      const { place, full, args, free } = await fullDisk(what);
      const store = join(place.clone, ".git/holdfast");
      const first = await place.run(...args);
      const answer = `${first.stdout}${first.stderr}`;
      expect(first.status, answer).toBe(7);
      expect(answer.replaceAll(/\s+/g, " ")).toMatch(
        /The disk is full: .*needs at least 8\.0 MiB, and 0\.\d MiB are free/,
      );
      expect(answer.replaceAll(/\s+/g, "")).toContain(realpathSync(full));
      // Only a store that is full itself needs what it kept for this.
      expect(existsSync(join(store, "reserve"))).toBe(what !== "store");
      expect(JSON.stringify(await place.json("status", "1"))).toContain('"for":"disk"');
      expect((await place.run("status", "1")).stdout).not.toContain("crashed");
      // Without room it does not begin again, and costs nothing.
      const again = await place.run("resume", "1");
      expect([again.status, again.stdout.includes("impl #1")], again.stdout + again.stderr).toEqual([7, false]);
      free();
      const done = await place.run("resume", "1");
      expect(done.status, done.stdout + done.stderr).toBe(0);
      expect(statSync(join(store, "reserve")).size).toBeGreaterThan(64 * 1024);
      expect((await place.run("verify")).status).toBe(0);
    },
  );

  test("a store at store.maxSize: the run waits, names the largest runs, and resume continues it when the limit is raised", async () => {
    const place = await work.begin();
    const limit = (size: string) =>
      writeFile(join(place.clone, "holdfast.config.yaml"), `store: { maxSize: ${size} }\n`);
    await limit("1kB");
    const first = await place.run("run", "1", "--agent", await place.agent([GOOD, REVIEW]));
    const answer = `${first.stdout}${first.stderr}`;
    expect(first.status, answer).toBe(7);
    expect(answer.replaceAll(/\s+/g, " ")).toMatch(
      /The store uses .* of 1\.0 kB \(store\.maxSize\).*Largest: issue-1 /,
    );
    expect(JSON.stringify(await place.json("status", "1"))).toContain('"for":"disk"');
    expect((await place.run("resume", "1")).status).toBe(7);
    await limit("1GB");
    const done = await place.run("resume", "1");
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect((await place.run("verify")).status).toBe(0);
  });

  test.skipIf(cannotMount !== null)(
    `under --wait it continues when space is back (${cannotMount ?? "as root"})`,
    async () => {
      const { place, args, free } = await fullDisk("store");
      const waiting = place.start(...args, "--wait");
      await waiting.says("The disk is full");
      free();
      const done = await waiting.ended;
      expect(done.status, done.stdout + done.stderr).toBe(0);
      expect(done.stdout).toContain("Done issue-1");
    },
  );

  test.skipIf(cannotMount !== null)(
    `a disk that is full before the first worktree is made: exit 7, and --wait continues when space is back (${cannotMount ?? "as root"})`,
    async () => {
      const { place, args, fill, free } = await fullDisk("worktrees");
      fill();
      const first = await place.run(...args);
      expect(first.status, first.stdout + first.stderr).toBe(7);
      const waiting = place.start(...args, "--wait");
      await new Promise<void>((resolve, reject) => {
        waiting.child.stderr?.on("data", (text: string) => {
          if (text.includes("Waiting for disk space")) resolve();
        });
        void waiting.ended.then((done) => reject(new Error(`it ended: ${JSON.stringify(done)}`)));
      });
      free();
      const done = await waiting.ended;
      expect(done.status, done.stdout + done.stderr).toBe(0);
      expect(done.stdout).toContain("Done issue-1");
    },
  );
});

describe("damaged run", () => {
  const work = workSuite();

  /** Killed while the reviewer works, when everything of the implementation is saved. */
  async function dieInReview(place: WorkPlace): Promise<void> {
    const agent = await place.agent([GOOD, { when: { role: "review" }, hang: true, reply: "" }]);
    const first = place.start("run", "1", "--agent", agent);
    await first.says("review #1");
    first.child.kill("SIGKILL");
    await first.ended;
    await place.agent([
      GOOD,
      { when: { role: "review" }, scores: { faithful: 95, style: 95, docs: 95, corner_cases: 95 } },
    ]);
  }

  function damageNewest(place: WorkPlace): number {
    const directory = join(place.clone, ".git/holdfast");
    const database = new DatabaseSync(join(directory, "store.db"), { readOnly: true });
    const { sequence } = database.prepare("SELECT max(sequence) AS sequence FROM checkpoints").get() ?? {};
    database.close();
    if (typeof sequence !== "number" || damageCheckpoints(directory, [sequence]) !== 1)
      throw new TypeError("no checkpoint to damage");
    return sequence;
  }

  /** One letter of a finished step's result, which no resume reads: a newer checkpoint holds it. */
  function alterOldEntry(place: WorkPlace): number {
    return alterEntries(join(place.clone, ".git/holdfast"), '"stage":"setup"', '"stage":"setuP"');
  }

  test("an altered entry that a resume does not need: it asks before it spends anything, and compare reports it", async () => {
    const place = await work.begin();
    await dieInReview(place);
    expect(alterOldEntry(place)).toBeGreaterThan(0);
    const compared = await place.run("compare", "1", "1");
    expect(compared.status).toBe(0);
    expect(compared.stdout.replaceAll(/\s+/g, " ")).toMatch(
      /damaged The journal of issue-1: The chain breaks at entry \d+/,
    );
    const calls = async () => (await place.json("compare", "1", "1")).runs[0].calls;
    const before = await calls();
    const asked = await place.run("resume", "1", "--max-cost", "9", "--max-tokens", "none");
    expect(asked.status, asked.stdout).toBe(4);
    expect(asked.stdout + asked.stderr).toContain("--max-tokens none --max-cost 9 --accept journal_damaged");
    expect(await calls()).toBe(before);
    const resumed = await place.run("resume", "1", "--accept", "journal_damaged");
    expect(resumed.status, resumed.stdout + resumed.stderr).toBe(0);
    expect(resumed.stdout).toContain("Done issue-1");
  });

  test("the newest checkpoint is damaged: status reports it, resume continues from the one before", async () => {
    const place = await work.begin();
    await dieInReview(place);
    const sequence = damageNewest(place);
    const status = await place.run("status", "1");
    expect(status).toMatchObject({ status: 0 });
    expect(status.stdout).toContain(`damaged     @${sequence}`);
    const resumed = await place.run("resume", "1");
    expect(resumed.status, resumed.stdout + resumed.stderr).toBe(0);
    expect(resumed.stdout).toContain(`@${sequence}`);
    expect(resumed.stdout).toContain("Done issue-1");
  });

  test("with the newest damaged, an older one can still be chosen", async () => {
    const place = await work.begin();
    await dieInReview(place);
    damageNewest(place);
    const resumed = await place.run("resume", "issue-1@2");
    expect(resumed.status, resumed.stdout + resumed.stderr).toBe(0);
  });
});
