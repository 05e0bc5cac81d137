import fc from "fast-check";
import { expect, test } from "vitest";
import { causeOfMessage, causeOfStatus, retryTime } from "./failure-cause.ts";

test("statuses with a known cause", () => {
  expect([401, 402, 403, 404, 408, 413, 429, 500, 529].map((status) => causeOfStatus(status))).toEqual([
    "auth",
    "billing",
    "auth",
    "missing",
    "network",
    "context_too_long",
    "rate_limit",
    "overload",
    "overload",
  ]);
  expect([null, 200, 400, 422].map((status) => causeOfStatus(status))).toEqual([null, null, null, null]);
});

test("texts with a known cause", () => {
  expect(causeOfMessage("prompt is too long: 300000 tokens > 200000 maximum")).toBe("context_too_long");
  expect(causeOfMessage("Request exceeds the model's prompt budget")).toBe("context_too_long");
  expect(causeOfMessage("Your credit balance is too low")).toBe("billing");
  expect(causeOfMessage("read ECONNRESET")).toBe("network");
  expect(causeOfMessage("scripted 400")).toBeNull();
});

test("a retry time is in seconds or a date; any other text gives none", () => {
  expect(retryTime("90", 0)).toBe("1970-01-01T00:01:30.000Z");
  expect(retryTime("Thu, 01 Jan 1970 01:00:00 GMT", 5)).toBe("1970-01-01T01:00:00.000Z");
  expect(retryTime("soon", 0)).toBeNull();
  fc.assert(
    fc.property(fc.string(), fc.nat(), (text, now) => {
      const time = retryTime(text, now);
      expect(time === null || !Number.isNaN(Date.parse(time))).toBe(true);
    }),
  );
});
