import { maskSecrets } from "@holdfast/core/mask";
import { expect, test } from "vitest";
import { Differences, showNames } from "./changes.ts";

const file = (path: string, from: string | null = null) =>
  ({ path, from, status: "added", added: 1, removed: 0 }) as const;
/** Made up, and of the form that a forge gives. */
const secret = (text: string): string => `ghp_${text.repeat(9)}`;

test("a secret in a name is masked, and each file still has a name of its own", () => {
  const files = [
    file(`${secret("a1B2")}.txt`),
    file("***.txt"),
    file("b.txt", secret("c3D4")),
    file(`${secret("e5F6")}.txt`),
  ];
  const found = showNames(files, maskSecrets);
  expect(found.map(({ shown }) => shown.path)).toEqual(["***.txt (2)", "***.txt", "b.txt", "***.txt (3)"]);
  expect(found[2]?.shown.from).toBe("***");
  expect(found.map(({ paths }) => paths)).toEqual(
    files.map(({ path, from }) => (from === null ? [path] : [path, from])),
  );
});

test("differences are computed once, and those used last are kept up to a size", async () => {
  const differences = new Differences(10);
  const computed: string[] = [];
  const get = (key: string, size: number): Promise<string> =>
    differences.of(
      key,
      (value: string) => value.length,
      () => {
        computed.push(key);
        return Promise.resolve("x".repeat(size));
      },
    );
  await get("a", 4);
  await get("b", 4);
  await get("a", 4);
  expect(computed).toEqual(["a", "b"]);
  // There is no room for all three: `b` was not used for the longest time.
  await get("c", 4);
  await get("a", 4);
  await get("b", 4);
  expect(computed).toEqual(["a", "b", "c", "b"]);
  // A failure is not kept.
  const fails = () =>
    differences.of(
      "d",
      () => 1,
      () => Promise.reject<string>(new Error("no")),
    );
  await expect(fails()).rejects.toThrow("no");
  expect(await get("d", 1)).toBe("x");
});
