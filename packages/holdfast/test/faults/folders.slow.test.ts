import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { record } from "./harness/record.ts";
import { prepared } from "./harness/subject.ts";
import { faultSuite } from "./harness/suite.ts";
import { storeIn, storeSubject } from "./judges/store-subject.ts";

faultSuite("folders", "tracer");

test("a new store gets its marker when the names of all its other files are durable", async () => {
  const subject = storeSubject("birth");
  const { root } = await prepared(subject);
  const { operations } = await record({ command: await subject.command(root), root });
  const store = storeIn(root);
  const begun = operations.findIndex(
    (operation) => operation.kind === "create" && operation.path === join(store, "heads"),
  );
  const marked = operations.findIndex(
    (operation) => operation.kind === "link" && operation.to === join(store, "store.json"),
  );
  expect([begun > 0, marked > begun]).toEqual([true, true]);
  const between = operations.slice(begun, marked);
  expect(between.some((operation) => operation.kind === "fsync" && operation.path === store)).toBe(true);
});

/** A process that was killed between making a folder and syncing its name leaves one that no power cut need spare. */
test("a folder that is there already is synced before anything in it counts as saved", async () => {
  const subject = storeSubject("life");
  const { root } = await prepared(subject);
  const blobs = join(storeIn(root), "blobs");
  for (let n = 0; n < 256; n += 1) mkdirSync(join(blobs, n.toString(16).padStart(2, "0")), { recursive: true });
  const { operations } = await record({ command: await subject.command(root), root });
  const made = operations.findIndex(
    (operation) => operation.kind === "create" && dirname(dirname(operation.path)) === blobs,
  );
  expect(made).toBeGreaterThan(0);
  const said = operations.findIndex((operation, at) => at > made && operation.kind === "say");
  const before = operations.slice(0, said);
  expect(before.some((operation) => operation.kind === "fsync" && operation.path === blobs)).toBe(true);
});
