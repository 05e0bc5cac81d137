import { join } from "node:path";
import { expect, test } from "vitest";
import { record } from "./harness/record.ts";
import { prepared } from "./harness/subject.ts";
import { faultSuite } from "./harness/suite.ts";
import { storeIn, storeSubject } from "./judges/store-subject.ts";

faultSuite("folders", "tracer");

test("a new store gets its marker when the names of all its other files are durable", async () => {
  const subject = storeSubject("new-store");
  const { root } = await prepared(subject);
  const { operations } = await record({ command: await subject.command(root), root });
  const store = storeIn(root);
  const begun = operations.findIndex(
    (operation) => operation.kind === "create" && operation.path === join(store, "high-water"),
  );
  const marked = operations.findIndex(
    (operation) => operation.kind === "link" && operation.to === join(store, "store.json"),
  );
  expect([begun > 0, marked > begun]).toEqual([true, true]);
  const between = operations.slice(begun, marked);
  expect(between.some((operation) => operation.kind === "fsync" && operation.path === store)).toBe(true);
});
