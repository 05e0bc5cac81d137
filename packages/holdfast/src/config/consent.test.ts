import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "../testing/store-contract/scratch-directory.ts";
import type { ConsentItem } from "./consent.ts";
import { loadConfig } from "./load-config.ts";

/** A repository with a config and a script, asked from any of its folders. */
function repository(config: string) {
  const root = scratchDirectory(onTestFinished);
  mkdirSync(join(root, ".git"));
  mkdirSync(join(root, "sub"));
  writeFileSync(join(root, "holdfast.config.yaml"), config);
  const script = (text: string): void => writeFileSync(join(root, "x.sh"), text);
  script("echo one\n");
  const items = async (below = "."): Promise<readonly ConsentItem[]> =>
    (await loadConfig({ cwd: join(root, below), env: {}, storeFlag: undefined, allows: () => false })).consents;
  return { script, items };
}

test("agents to fall back to need consent, whatever they are: no flag replaces them", async () => {
  const { items } = repository("agent: claude\nerrors:\n  fallback:\n    agents: [codex]\n");
  expect((await items()).map(({ key }) => key)).toEqual(["errors.fallback.agents"]);
});

test("from any folder of the repository the consent is to the same script", async () => {
  const { script, items } = repository("agent: command:./x.sh\n");
  const [before] = await items("sub");
  expect(before?.text).toContain("echo one");
  expect(before).toEqual((await items())[0]);
  script("echo two\n");
  expect((await items("sub"))[0]?.digest).not.toBe(before?.digest);
});

test.each([
  "./x.sh;true",
  "./x.sh|cat",
  "(./x.sh)",
  "sh<x.sh",
  ". ./x.sh&&true",
  "$PWD/x.sh",
  'sh "${PWD}/x.sh"',
  "echo `./x.sh`",
  "A=1 sh -c './x.sh;true'",
])("a changed script needs consent again: %s", async (command) => {
  const { script, items } = repository(`agent: ${JSON.stringify(`command:${command}`)}\n`);
  const [before] = await items();
  script("echo two\n");
  expect((await items())[0]?.digest).not.toBe(before?.digest);
});
