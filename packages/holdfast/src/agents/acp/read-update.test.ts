import { describe, expect, test } from "vitest";
import { NOTHING_HEARD, readUpdate } from "./read-update.ts";

describe("updates", () => {
  const chunk = (text: string) => ({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
  const heard = (updates: readonly object[]) =>
    updates.reduce((state: typeof NOTHING_HEARD, update) => readUpdate(state, { ...update }).state, NOTHING_HEARD);

  test("the last words are those after the last tool call", () => {
    const tool = { sessionUpdate: "tool_call", kind: "edit", title: "Writing" };
    expect(heard([chunk("I will "), chunk("write."), tool, chunk("All "), chunk("done.")]).text).toBe("All done.");
    expect(heard([chunk("Writing now."), tool]).text).toBe("Writing now.");
  });

  test("money is the last that was told, in dollars", () => {
    const cost = (amount: number, currency: string) => ({ sessionUpdate: "usage_update", cost: { amount, currency } });
    expect(heard([cost(0.1, "USD"), cost(0.25, "USD"), { sessionUpdate: "usage_update" }]).cost).toBe(250_000);
    expect(heard([cost(3, "credits")]).cost).toBeNull();
  });

  test("what is not known changes nothing", () => {
    for (const update of [{}, { sessionUpdate: "from_the_future", content: 1 }, chunk("")])
      expect(readUpdate(NOTHING_HEARD, update)).toEqual({ state: NOTHING_HEARD, events: [] });
  });
});
