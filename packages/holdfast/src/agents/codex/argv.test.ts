import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { scratchDirectory } from "../../testing/store-contract/scratch-directory.ts";
import { codexArgs, codexEnv } from "./argv.ts";
import { nativeBinary } from "./native-binary.ts";

test("a new session, as it may act", () => {
  expect(codexArgs({ task: { model: "gpt-5.5", yolo: true, session: null }, extra: [] }).join(" ")).toBe(
    "exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --model gpt-5.5 -",
  );
});

test("one to go on with, in the sandbox", () => {
  expect(codexArgs({ task: { model: null, yolo: false, session: "01a1" }, extra: [] }).join(" ")).toBe(
    'exec resume --json --skip-git-repo-check -c sandbox_mode="workspace-write" -c approval_policy="never" 01a1 -',
  );
});

test("a log that was asked for is left alone", () => {
  expect(codexEnv({ RUST_LOG: "debug" })).toEqual({});
  expect(Object.keys(codexEnv({}))).toEqual(["RUST_LOG"]);
});

test("behind npm's wrapper stands the program; anything else is the program", (context) => {
  const root = scratchDirectory(context.onTestFinished);
  const at = (path: string) => join(root, path);
  const vendor = `node_modules/@openai/codex-${process.platform}-${process.arch}`;
  for (const folder of ["node_modules/.bin", "node_modules/@openai/codex/bin", `${vendor}/vendor/any-target/bin`])
    mkdirSync(at(folder), { recursive: true });
  writeFileSync(at("node_modules/@openai/codex/bin/codex.js"), "");
  symlinkSync("../@openai/codex/bin/codex.js", at("node_modules/.bin/codex"));
  expect(nativeBinary(at("node_modules/.bin/codex"))).toBe(at("node_modules/.bin/codex"));
  writeFileSync(at(`${vendor}/package.json`), "{}");
  writeFileSync(at(`${vendor}/vendor/any-target/bin/codex`), "");
  expect(nativeBinary(at("node_modules/.bin/codex"))).toBe(at(`${vendor}/vendor/any-target/bin/codex`));
  expect(nativeBinary(at(`${vendor}/vendor/any-target/bin/codex`))).toBe(at(`${vendor}/vendor/any-target/bin/codex`));
  expect(nativeBinary("/no/such/codex")).toBe("/no/such/codex");
});

test("a sandbox of the user's own holds, also for one that may do all, and where a session goes on", () => {
  const words = (extra: readonly string[], session: string | null = null) =>
    codexArgs({ task: { model: null, yolo: true, session }, extra }).join(" ");
  const readOnly = `-c sandbox_mode="read-only" -c approval_policy="never"`;
  expect(words(["--sandbox", "read-only"])).toBe(`exec --json --skip-git-repo-check ${readOnly} -`);
  expect(words(["--search", "--sandbox=read-only"], "1")).toBe(
    `exec resume --json --skip-git-repo-check ${readOnly} --search 1 -`,
  );
  expect(words(["-c", "a=1", "-s", "read-only"])).toBe(`exec --json --skip-git-repo-check ${readOnly} -c a=1 -`);
});
