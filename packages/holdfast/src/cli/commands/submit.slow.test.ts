import { mkdir, readFile, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { GOOD, workSuite } from "@holdfast/test-support/cli-repositories";
import { postgresMissing, sharedPostgres } from "@holdfast/test-support/postgres-server";

const work = workSuite();

describe.skipIf(postgresMissing() !== null)("a run that was submitted without a remote for its files", () => {
  test("needs its machine, until it is submitted again with one", async () => {
    const place = await work.begin();
    const store = ["--store", (await sharedPostgres()).url()];
    const submit = ["submit", "--workflow", "ralph", "--until", "true", "--task", "one", "--agent", "command:true"];
    const needsOf = async (): Promise<readonly string[]> => {
      const { entries } = await place.json(...store, "queue");
      return entries[0].needs;
    };
    const first = await place.json(...store, ...submit, "--needs", "gpu");
    expect(await needsOf()).toEqual(expect.arrayContaining(["gpu", `host:${hostname()}`]));
    await place.json(...store, "submit", first.run.id);
    expect(await needsOf()).toEqual(expect.arrayContaining(["gpu", `host:${hostname()}`]));

    const config = join(place.clone, "holdfast.config.yaml");
    const before = await readFile(config, "utf8").catch(() => "");
    await writeFile(config, `${before}files: { remote: origin }\n`);
    await place.run("trust", "--yes");
    const again = await place.json(...store, "submit", first.run.id);
    expect(again.submission).toMatchObject({ host: null, needs: ["gpu", "workflow:ralph@1"] });
    expect(await needsOf()).not.toContain(`host:${hostname()}`);
    expect(await needsOf()).toContain("gpu");
  });
});

describe.skipIf(postgresMissing() !== null)(
  "a run that another machine executed without a remote for its files",
  () => {
    test("is submitted there, and then from anywhere", async () => {
      const place = await work.begin();
      const env = { HOLDFAST_STORE: (await sharedPostgres()).url() };
      await writeFile(join(place.clone, "holdfast.config.yaml"), "approve: [push]\n");
      const other = join(place.clone, "../elsewhere/shop");
      await mkdir(join(other, ".."));
      await place.git("clone", "-q", place.remote, other);
      const there = (...args: readonly string[]) => place.holdfast.run(args, { cwd: place.clone, env });
      const here = (...args: readonly string[]) => place.holdfast.run(args, { cwd: other, env });
      expect((await there("run", "1", "--no-review", "--agent", await place.agent([GOOD]))).status).toBe(4);
      for (const args of [["issue-1"], ["1", "--dry-run"]])
        expect(await here("submit", ...args)).toMatchObject({
          status: 6,
          stderr: expect.stringMatching(/files of issue-1 are not on this machine[^]*holdfast submit issue-1/),
        });
      expect(JSON.parse((await here("--json", "queue")).stdout).entries).toEqual([]);
      expect((await there("submit", "issue-1")).status).toBe(0);
      const again = await here("--json", "submit", "issue-1");
      expect(again.status, again.stderr).toBe(0);
      expect(JSON.parse(again.stdout).submission.host).toBe(hostname());
    });
  },
);
