import { expect, test, vi } from "vitest";
import { Repositories } from "./repositories.ts";

test("a list does not wait long for one store, and not again until it can be read", async () => {
  vi.useFakeTimers();
  try {
    await using repositories = new Repositories({ list: () => [], now: () => 0 });
    const named = { id: "a", store: "/shop/.git/holdfast", root: "/shop", usedAt: "", key: "shop", name: "shop" };
    const slow = Promise.withResolvers<string>();
    const first = expect(repositories.inTime(named, () => slow.promise)).rejects.toMatchObject({ code: "STORE_BUSY" });
    await vi.advanceTimersByTimeAsync(500);
    await first;
    await expect(repositories.inTime(named, async () => "read")).rejects.toThrow("Still reading shop");
    // Another store is not affected.
    expect(await repositories.inTime({ ...named, store: "/other" }, async () => "read")).toBe("read");
    slow.resolve("read");
    await vi.advanceTimersByTimeAsync(0);
    expect(await repositories.inTime(named, async () => "read")).toBe("read");
  } finally {
    vi.useRealTimers();
  }
});
