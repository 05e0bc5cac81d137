import { expect, test } from "vitest";
import { guessSetup } from "./detect-setup.ts";

const PACKAGE = JSON.stringify({ dependencies: { left: "1.0.0" } });
const SUBMODULE = '[submodule "lib"]\n\tpath = lib\n\turl = ../lib.git\n';
const BERRY = "# This file is generated.\n\n__metadata:\n  version: 8\n";

test.each([
  [{ "package.json": PACKAGE, "package-lock.json": "{}" }, "npm ci"],
  [{ "package.json": PACKAGE, "npm-shrinkwrap.json": "{}" }, "npm ci"],
  [{ "package.json": PACKAGE }, "npm install --no-package-lock"],
  [{ "package.json": PACKAGE, "pnpm-lock.yaml": "lockfileVersion: '9.0'\n" }, "pnpm install --frozen-lockfile"],
  [{ "package.json": PACKAGE, "yarn.lock": "# yarn lockfile v1\n" }, "yarn install --frozen-lockfile"],
  [{ "package.json": PACKAGE, "yarn.lock": BERRY }, "yarn install --immutable"],
  [{ "package.json": PACKAGE, "bun.lock": "{}" }, "bun install --frozen-lockfile"],
  [{ "uv.lock": "version = 1\n", "requirements.txt": "pytest\n" }, "uv sync --frozen"],
  [{ "requirements.txt": "pytest\n" }, "python3 -m venv .venv && .venv/bin/python -m pip install -r requirements.txt"],
  [{ "Cargo.toml": "[package]\n", "Cargo.lock": "version = 4\n" }, "cargo fetch --locked"],
  [{ "Cargo.toml": "[package]\n" }, "cargo fetch"],
  [{ "go.mod": "module x\n" }, "go mod download"],
  [{ "package.json": PACKAGE, "package-lock.json": "{}", "uv.lock": "version = 1\n" }, "npm ci && uv sync --frozen"],
  [{ ".gitmodules": SUBMODULE, "go.mod": "module x\n" }, "git submodule update --init --recursive && go mod download"],
  [{ ".gitattributes": "*.psd filter=lfs diff=lfs merge=lfs -text\n" }, "git lfs pull"],
])("%o gives: %s", (files, command) => {
  expect(guessSetup(reading(files))?.command).toBe(command);
});

test.each([
  {},
  { "package.json": "{}" },
  { "package.json": "not json" },
  { "package.json": JSON.stringify({ dependencies: "; touch stolen" }) },
  { "package-lock.json": "{}" },
  { "README.md": "npm ci" },
  { ".gitmodules": "# none\n", ".gitattributes": "# *.psd filter=lfs\n*.txt text\n" },
])("%o names no dependencies", (files) => {
  expect(guessSetup(reading(files))).toBeNull();
});

function reading(files: Readonly<Record<string, string>>): (name: string) => string {
  return (name) => files[name] ?? "";
}
