import { expect, test } from "vitest";
import { PAGE } from "@holdfast/test-support/sample-run";
import { doctorText } from "./doctor.ts";

test("checks are aligned, with the remedy below them", () => {
  const checks = [
    { name: "node", level: "ok", detail: "v24.21.0", fix: null },
    {
      name: "agents",
      level: "warn",
      detail: "none of claude, codex, gemini, opencode, copilot, qwen, pi on PATH",
      fix: "Install one (Claude Code, Codex, Gemini CLI) and log in.",
    },
    { name: "store", level: "fail", detail: "STORE_CORRUPT: a \x1b[31mname", fix: "Run `holdfast verify`." },
  ] as const;
  expect(doctorText({ ok: false, checks, usage: [] }, PAGE)).toMatchInlineSnapshot(`
    "ok    node    v24.21.0
    warn  agents  none of claude, codex, gemini, opencode, copilot, qwen, pi on PATH
                  fix: Install one (Claude Code, Codex, Gemini CLI) and log in.
    fail  store   STORE_CORRUPT: a \\x1b[31mname
                  fix: Run \`holdfast verify\`.

    1 failed, 1 warning.
    "
  `);
  expect(doctorText({ ok: true, checks: checks.slice(0, 1), usage: [] }, PAGE)).toMatch(/\n\nAll checks passed\.\n$/);
  expect(doctorText({ ok: true, checks: checks.slice(0, 2), usage: [] }, PAGE)).toMatch(/No failures, 1 warning\.\n$/);
});
