import { expect, onTestFinished, test } from "vitest";
import { postgresMissing, sharedPostgres } from "@holdfast/test-support/postgres-server";
import { type OtherSchema, connectOtherSchema } from "./other-schema.ts";

async function open(
  url: string,
  patienceMs: number,
): Promise<Pick<OtherSchema, "inTurn"> & { readonly pool: ReturnType<OtherSchema["openPool"]> }> {
  const { driver, openPool, inTurn } = await connectOtherSchema({ url, suffix: "other", patienceMs });
  const pool = openPool();
  onTestFinished(async () => {
    await pool.end();
    await driver.close();
  });
  return { inTurn, pool };
}

test("a process that creates tables and does not end, such as a frozen one, blocks the others for a limited time", async ({
  skip,
}) => {
  const missing = postgresMissing();
  skip(missing !== null, missing ?? "");
  const url = (await sharedPostgres()).url();
  const [first, second] = [await open(url, 60_000), await open(url, 0)];
  await first.inTurn(first.pool, async () => {
    await expect(second.inTurn(second.pool, async () => "done")).rejects.toMatchObject({ code: "STORE_BUSY" });
  });
  expect(await first.inTurn(first.pool, async () => "done")).toBe("done");
});
