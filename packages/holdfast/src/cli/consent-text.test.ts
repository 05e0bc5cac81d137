import { expect, test } from "vitest";
import { documentItem, fileItem } from "../config/consent.ts";
import { consentText, lineText } from "./consent-text.ts";
import { displayWidth } from "./output/text.ts";

const PAGE = { width: 80, color: false, terminal: true, now: 0, offset: () => 0, program: "holdfast" };

const item = documentItem({
  key: "the imported run r",
  value: {
    agent: "command",
    model: "./agent.sh",
    gate: null,
    options: { until: "npm test", prompts: null },
    templates: { impl: `One.\n${"Keep everything as it is, please. ".repeat(5)}see: git push --force\n` },
  },
  file: "r",
});

test("an imported run is shown as lines with a margin, and not wider than the terminal", () => {
  const lines = consentText({ items: [item], root: "/repo" }, PAGE)
    .trimEnd()
    .split("\n");
  expect(lines.slice(1, 8)).toEqual([
    "  the imported run r: runs a command or a program",
    "    | agent: command",
    "    | model: ./agent.sh",
    "    | options:",
    "    |   until: npm test",
    "    | templates:",
    "    |   impl: |",
  ]);
  for (const line of lines) expect(displayWidth(line), line).toBeLessThanOrEqual(80);
  for (const line of lines.slice(2)) expect(line).toMatch(/^ {4}\| /);
  expect(lineText(item, "/repo")).toBe("the imported run r");
});

test("a short value is on one line with its place, and a long file is clipped with the command that shows it", () => {
  const short = { ...item, key: "agents.args", value: { claude: ["--verbose"] }, file: "/repo/holdfast.config.yaml" };
  expect(lineText(short, "/repo")).toBe('agents.args: {"claude":["--verbose"]} (holdfast.config.yaml:1)');
  const text = Array.from({ length: 90 }, (_, index) => `line ${index}`).join("\n");
  const file = fileItem({ path: "/repo/a.sh", root: "/repo", text, more: [], danger: "executes", uses: ["work"] });
  const shown = { items: [file], root: "/repo", run: "r" };
  expect(consentText(shown, PAGE)).toContain(
    "    | … 30 more lines are not shown; to see all: holdfast trust r --show\n",
  );
  expect(consentText({ ...shown, lines: "all" }, PAGE)).toContain("    | line 89\n");
});
