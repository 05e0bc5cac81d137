import { readFile, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { workSuite } from "@holdfast/test-support/cli-repositories";
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
