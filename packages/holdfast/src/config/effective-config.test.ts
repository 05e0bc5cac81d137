import { describe, expect, test } from "vitest";
import { defaultRetention } from "@holdfast/core/retention";
import { configTemplate } from "./config-template.ts";
import { type ConfigLayers, mergeConfig, openParamsOf } from "./effective-config.ts";
import { parseConfig } from "./schema.ts";

function layers(text: string, rest: Partial<ConfigLayers> = {}): ConfigLayers {
  const parsed = parseConfig(text);
  if (!parsed.ok) throw new Error(parsed.problems.map(({ message }) => message).join("; "));
  return {
    env: {},
    cwd: "/repo/src",
    storeFlag: undefined,
    file: { path: "/repo/holdfast.config.yaml", directory: "/repo", ...parsed },
    ...rest,
  };
}

const origin = (config: ReturnType<typeof mergeConfig>, key: string) =>
  config.entries.find((entry) => entry.key === key)?.origin;

describe("mergeConfig", () => {
  test("flag over environment over file over default", () => {
    const env = { HOLDFAST_STORE: "from-env" };
    const file = "store: from-file\n";
    const steps = [
      mergeConfig(layers("")),
      mergeConfig(layers(file)),
      mergeConfig(layers(file, { env })),
      mergeConfig(layers(file, { env, storeFlag: "from-flag" })),
    ];
    expect(steps.map(({ settings }) => settings.store)).toEqual([
      null,
      "/repo/from-file",
      "/repo/src/from-env",
      "/repo/src/from-flag",
    ]);
    expect(steps.map((step) => origin(step, "store"))).toEqual([
      { kind: "default" },
      { kind: "file", line: 1 },
      { kind: "environment", variable: "HOLDFAST_STORE" },
      { kind: "flag", flag: "--store" },
    ]);
  });

  test("a URL is not a path", () => {
    expect(mergeConfig(layers("", { env: { HOLDFAST_STORE: "postgres://db/x" } })).settings.store).toBe(
      "postgres://db/x",
    );
  });

  test("a URL with an unknown scheme is refused wherever it is written", () => {
    const url = "postgers://u:pw9@db/x";
    const places: readonly (readonly [string, ConfigLayers])[] = [
      ["--store", layers("", { storeFlag: url })],
      ["HOLDFAST_STORE", layers("", { env: { HOLDFAST_STORE: url } })],
      ["store in /repo/holdfast.config.yaml", layers(`store: ${url}\n`)],
      ["store in /repo/holdfast.config.yaml", layers(`store: { path: "${url}" }\n`)],
      ["HOLDFAST_DISPATCH", layers("", { env: { HOLDFAST_DISPATCH: url } })],
      ["fleet.dispatch in /repo/holdfast.config.yaml", layers(`fleet: { dispatch: "${url}" }\n`)],
    ];
    for (const [source, given] of places)
      expect(() => mergeConfig(given)).toThrow(`${source} is a URL of an unknown kind, postgers://…`);
  });

  test("rules of the file extend the default ones key by key, and null is a value", () => {
    const { settings } = mergeConfig(layers("retention:\n  maxAge: never\n  keep: { automatic: 9, manual: 1 }\n"));
    expect(settings.retention).toEqual({
      ...defaultRetention,
      maxAgeDays: null,
      // Rules of the user's own apply at once.
      minRunAgeDays: null,
      perTrigger: {
        ...defaultRetention.perTrigger,
        automatic: { keep: 9, per: "run" },
        manual: { keep: 1, per: "run" },
      },
    });
  });

  test("options of openHoldfast", () => {
    const config = mergeConfig(
      layers("store: s\nworkspace: { maxUntrackedBytes: 1kB, includeIgnored: true, worktrees: ../trees }\n"),
    );
    expect(openParamsOf(config)).toMatchObject({
      store: "/repo/s",
      maxUntrackedBytes: 1000,
      includeIgnored: true,
      worktrees: "/trees",
      retention: defaultRetention,
    });
    expect(openParamsOf(mergeConfig(layers("")))).not.toHaveProperty("store");
    expect(openParamsOf(mergeConfig(layers("store: { path: s, maxSize: 2GB }\n")))).toMatchObject({
      store: "/repo/s",
      maxStoreBytes: 2e9,
    });
    expect(openParamsOf(mergeConfig(layers("store: { maxSize: 2GB }\n")))).not.toHaveProperty("store");
  });
});

describe("the file that init writes", () => {
  const written = mergeConfig(layers(configTemplate()));
  const plain = mergeConfig(layers(""));

  test("is valid, and changes nothing", () => {
    expect(written.settings).toEqual(plain.settings);
    expect(written.entries.map(({ key, value }) => [key, value])).toEqual(
      plain.entries.map(({ key, value }) => [key, value]),
    );
  });

  test("names every key, and sets all but those that depend on the repository", () => {
    const byDefault = written.entries.filter((entry) => entry.origin.kind === "default").map(({ key }) => key);
    expect(byDefault).toEqual([
      "store",
      "store.maxSize",
      "workspace.worktrees",
      "workspace.setup",
      "workspace.copy",
      "fleet.dispatch",
      "fleet.queues",
      "fleet.repositories",
      "fleet.agents",
      "fleet.queueOf",
      "agent",
      "models.impl",
      "models.review",
      "agents.args",
      "agents.env",
      "forge.path",
      "forge.host",
      "impl.gate",
      "impl.base",
      "impl.prompts.impl",
      "impl.prompts.review",
      "impl.prompts.simplify",
      "impl.prompts.rebase",
      "impl.prompts.continue",
      "impl.tags",
      "ralph.until",
      "errors.retry",
      "errors.fallback.agents",
      "errors.rules",
      "approve",
      "mirror.directory",
      "aiwg.directory",
      "prices",
    ]);
    for (const { key } of plain.entries)
      expect(configTemplate()).toMatch(new RegExp(`^ *(# *)?${key.split(".").at(-1)}:`, "m"));
  });
});
