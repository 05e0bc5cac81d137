import { expect, test } from "vitest";
import { guessGate } from "./guess-gate.ts";

const scripts = (test: string) => JSON.stringify({ scripts: { test } });

test.each([
  [{}, null],
  [{ "package.json": scripts("vitest") }, "npm test"],
  [{ "package.json": scripts("vitest"), "pnpm-lock.yaml": "x" }, "pnpm test"],
  [{ "package.json": scripts("vitest"), "yarn.lock": "x" }, "yarn test"],
  [{ "package.json": scripts("jest"), "bun.lock": "x" }, "bun run test"],
  [{ "package.json": scripts('echo "Error: no test specified" && exit 1') }, null],
  [{ "package.json": "not json", Makefile: "all: a\ncheck: b\n" }, "make check"],
  [{ Makefile: "check:\n\ttrue\ntest:\n\ttrue\n" }, "make test"],
  [{ Makefile: "test := 1\ntested: x\n" }, null],
  [{ "pyproject.toml": '[dependency-groups]\ndev = ["pytest>=8"]\n' }, "python3 -m pytest -q"],
  [{ "pyproject.toml": "[tool.pytest.ini_options]\n", "uv.lock": "x" }, "uv run pytest -q"],
  [{ "pyproject.toml": "[project]\n" }, null],
  [{ "tox.ini": "[tox]" }, "tox"],
  [{ "Cargo.toml": "[package]" }, "cargo test"],
  [{ "go.mod": "module x" }, "go test ./..."],
])("%j", (files: Readonly<Record<string, string>>, command) => {
  expect(guessGate((name) => files[name] ?? "")?.command ?? null).toBe(command);
});
