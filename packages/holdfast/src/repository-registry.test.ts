import { chmodSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { expect, onTestFinished, test } from "vitest";
import { fileName, listRepositories, nameRepositories, registerRepository } from "./repository-registry.ts";

const NOW = Date.parse("2026-11-18T07:00:00.000Z");
const DAY = 24 * 3_600_000;

function scene() {
  const directory = scratchDirectory(onTestFinished);
  const env = { HOME: directory, XDG_STATE_HOME: join(directory, "state") };
  const add = async (name: string, now = NOW): Promise<number> => {
    const [root, store] = [join(directory, name), join(directory, name, ".git/holdfast")];
    mkdirSync(store, { recursive: true });
    let calls = 0;
    await registerRepository(env, { id: `id-${name}`, store, root: async () => (calls++, root) }, now);
    return calls;
  };
  const fileOf = (name: string): string =>
    join(directory, "state/holdfast/repositories", fileName(join(directory, name, ".git/holdfast")));
  return { directory, env, add, fileOf };
}

test("a store is listed once it was registered, and its root is looked up once a day", async () => {
  const { env, add, fileOf } = scene();
  expect(listRepositories(env, NOW)).toEqual([]);
  expect([await add("shop"), await add("shop"), await add("shop", NOW + 2 * DAY)]).toEqual([1, 0, 1]);
  await add("api");
  expect(listRepositories(env, NOW).map(({ key }) => key)).toEqual(["api", "shop"]);
  expect(statSync(fileOf("shop")).mode & 0o777).toBe(0o600);
});

test("a store that is away is not listed, comes back, and is forgotten after a long time", async () => {
  const { directory, env, add, fileOf } = scene();
  await add("shop");
  rmSync(join(directory, "shop"), { recursive: true });
  expect(listRepositories(env, NOW)).toEqual([]);
  mkdirSync(join(directory, "shop/.git/holdfast"), { recursive: true });
  expect(listRepositories(env, NOW)).toHaveLength(1);
  rmSync(join(directory, "shop"), { recursive: true });
  expect(listRepositories(env, NOW + 91 * DAY)).toEqual([]);
  expect(() => statSync(fileOf("shop"))).toThrow(/ENOENT/);
});

test("a damaged file and a file that others can write are ignored", async () => {
  const { env, add, fileOf } = scene();
  await add("shop");
  await add("api");
  writeFileSync(fileOf("shop"), "{");
  chmodSync(fileOf("api"), 0o666);
  expect(listRepositories(env, NOW)).toEqual([]);
});

test("a home directory that cannot be written does not fail the command", async () => {
  const { directory, add } = scene();
  writeFileSync(join(directory, "state"), "a file");
  await expect(add("shop")).resolves.toBeTypeOf("number");
});

test("repositories of one name get as much of their id as tells them apart", () => {
  const one = (root: string, id: string) => ({
    id,
    root,
    store: `${root}/.git/holdfast`,
    usedAt: "2026-11-18T07:00:00.000Z",
  });
  const keys = nameRepositories([
    one("/a/shop", "1f3a9999"),
    one("/b/shop", "1f3a8888"),
    one("/c/shop", "77777777"),
    one("/d/shop", "77777777"),
    one("/e/api", "1"),
    one("/f/a b/ü", "2"),
  ]).map(({ key }) => key);
  expect(keys.slice(0, 2)).toEqual(["shop~1f3a9", "shop~1f3a8"]);
  expect(new Set(keys).size).toBe(keys.length);
  for (const key of keys) expect(key).toMatch(/^[A-Za-z0-9._-]+(?:~[A-Za-z0-9]+)?$/);
});

test("a shared store whose URL was spelled in two ways is listed once, as it was used last", async () => {
  const { directory, env } = scene();
  const add = (store: string, root: string, now: number): Promise<void> =>
    registerRepository(env, { id: "id-team", store, root: async () => join(directory, root) }, now);
  await add("postgres://ann@localhost/team", "shop", NOW + 1000);
  await add("postgres://bob@127.0.0.1/team", "shop", NOW);
  await add("postgres://bob@127.0.0.1/team?schema=x", "api", NOW);
  expect(listRepositories(env, NOW).map(({ key, store }) => [key, store])).toEqual([
    ["api", "postgres://bob@127.0.0.1/team?schema=x"],
    ["shop", "postgres://ann@localhost/team"],
  ]);
});
