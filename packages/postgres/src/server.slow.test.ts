import { chmodSync } from "node:fs";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import type { Store } from "@holdfast/core/store";
import { leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { postgresMissing, sharedPostgres, startPostgres, tlsSettings } from "@holdfast/test-support/postgres-server";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { openTestStore } from "@holdfast/test-support/test-stores";

/* Servers that are set up in another way than that of the other tests. */

const missing = postgresMissing();
beforeEach(({ skip }) => skip(missing !== null, missing ?? ""));

async function open(url: string): Promise<Store> {
  const store = await openTestStore(url, { patienceMs: 0 });
  onTestFinished(() => store.close());
  return store;
}

test("a certificate is checked against the authority and the name in the URL, and a refused one is a clear error", async () => {
  const files = scratchDirectory(onTestFinished);
  chmodSync(files, 0o755);
  const { settings, authority } = await tlsSettings(files);
  const server = await startPostgres(onTestFinished, { settings });
  const at = (host: string, more: string): string =>
    `postgres://holdfast@${host}:${settings.port}/postgres?sslmode=${more}`;
  const trusted = `&sslrootcert=${encodeURIComponent(authority)}`;

  const store = await open(at("localhost", `verify-full${trusted}`));
  await save(store, await leasedRun(store), { values: { n: 1 } });
  expect(
    server.sql("SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE client_port > 0"),
  ).toBe("t\n");
  // What the registry of repositories keeps.
  expect((await (await open(store.location)).latest("sample"))?.sequence).toBe(1);

  const refused = {
    "an unknown authority": at("localhost", "verify-full"),
    "the same, in a mode that other programs do not check in": at("localhost", "require"),
    "another name": at("127.0.0.1", `verify-full${trusted}`),
    "a server without encryption": `${(await sharedPostgres()).url()}&sslmode=verify-full`,
  };
  for (const [what, url] of Object.entries(refused))
    await expect(openTestStore(url), what).rejects.toMatchObject({
      code: "IO_FAILED",
      message: expect.stringMatching(
        /^There is no encrypted connection that can be trusted in the store postgres:.*: .*(?:certificate|SSL)/,
      ),
      hint: expect.stringContaining("sslrootcert=FILE"),
    });
});
