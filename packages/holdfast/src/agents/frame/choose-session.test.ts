import { expect, test } from "vitest";
import { chooseSession } from "./choose-session.ts";

const CALL = { mark: "store/run/1/impl", iteration: 1, attempt: 1 };
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/;

test("the same call has the same id, another call another one", () => {
  const id = chooseSession(CALL, () => false);
  expect(id).toMatch(UUID);
  expect(chooseSession({ ...CALL }, () => false)).toBe(id);
  for (const change of [{ mark: "store/run/2/impl" }, { iteration: 2 }, { attempt: 2 }])
    expect(chooseSession({ ...CALL, ...change }, () => false)).not.toBe(id);
});

test("one that was used is passed over", () => {
  const first = chooseSession(CALL, () => false);
  const second = chooseSession(CALL, (id) => id === first);
  expect(second).toMatch(UUID);
  expect(second).not.toBe(first);
});

test("it says of which kind it is", () => {
  expect(chooseSession(CALL, () => false, "5")).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-a/);
});
