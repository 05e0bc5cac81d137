import { expect, test } from "vitest";
import {
  checkOwnLabel,
  dispatchPlace,
  dispatchTimings,
  nameInAddress,
  neededLabels,
  ownLabels,
} from "./open-dispatch.ts";

test.each([
  ["https://github.com/acme/shop.git", "acme/shop"],
  ["https://user:secret@git.example/shop.git", "shop"],
  ["ssh://git@git.example:2222/acme/tools/shop", "tools/shop"],
  ["git@github.com:acme/shop.git", "acme/shop"],
  ["/srv/git/acme/shop.git", "acme/shop"],
  ["file:///srv/git/other/shop.git", "other/shop"],
  ["/srv/acme one/shop", "acme-one/shop"],
  ["/shop.git", "shop"],
  ["../shop", "shop"],
  ["/home/ann/shop/../acme/shop.git", "acme/shop"],
  ["/", "repository"],
])("the repository at %s is called %s", (address, name) => expect(nameInAddress(address)).toBe(name));

test("the queue is beside the store, unless the settings name a place", () => {
  const fleet = { dispatch: null, queueOf: {}, limits: {} };
  expect(dispatchPlace({ fleet, store: null }, "/shop/.git/holdfast")).toBe("/shop/.git/holdfast/dispatch");
  const url = "postgres://a:secret@db/team";
  expect(dispatchPlace({ fleet, store: url }, "postgres://a@db/team")).toBe(url);
  expect(dispatchPlace({ fleet: { ...fleet, dispatch: "/queue" }, store: url }, url)).toBe("/queue");
});

test("a run needs its agents, its workflow and what it was submitted with", async () => {
  const config = { agent: "claude", model: "opus", inputs: {} };
  const more = ["gpu"];
  expect(await neededLabels({ workflow: "impl", config, more })).toEqual(["agent:claude", "gpu", "workflow:impl@1"]);
  // No program of a scripted agent can be looked for, and a workflow in a file comes with the repository.
  const custom = { agent: "scripted", model: "x.json", inputs: {} };
  expect(await neededLabels({ workflow: "mine", config: custom, more: [] })).toEqual([]);
  await expect(neededLabels({ workflow: "impl", config, more: ["a b"] })).rejects.toMatchObject({
    code: "USAGE",
  });
});

test.each(["agent:claude", "host:other", "store:s-1", "workflow:impl@1"])(
  "a worker cannot be given the label %s, and a run may need it",
  async (label) => {
    const prefix = label.slice(0, label.indexOf(":") + 1);
    const refusal = {
      code: "USAGE",
      message: `--label cannot be "${label}": a worker determines its ${prefix} labels itself`,
      hint: expect.stringContaining("pool:large") as string,
    };
    expect(() => checkOwnLabel(label)).toThrow(expect.objectContaining(refusal));
    await expect(ownLabels([], ["gpu", label])).rejects.toMatchObject(refusal);
    const config = { agent: "scripted", model: "x.json", inputs: {} };
    expect(await neededLabels({ workflow: "mine", config, more: [label] })).toEqual([label]);
  },
);

test.each(["gpu", "pool:large", "agents", "my-host:1"])("a worker can be given the label %s", (label) => {
  expect(checkOwnLabel(label)).toBe(label);
});

test("tests can shorten the times", () => {
  expect(dispatchTimings({})).toEqual({ reconcileMs: 15_000 });
  expect(dispatchTimings({ HOLDFAST_DISPATCH_TIMINGS: '{"deadMs":5,"lookMs":"x","other":1}' })).toEqual({
    reconcileMs: 15_000,
    deadMs: 5,
  });
});
