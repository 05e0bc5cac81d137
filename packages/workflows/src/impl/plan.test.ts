import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createFence } from "@holdfast/core/workflow";
import { createOutputs } from "@holdfast/platform/outputs";
import { implPrompt } from "./implement.ts";
import { parseImplOptions } from "./options.ts";
import { importedPlan, planInput } from "./plan.ts";
import { initialImplState } from "./state.ts";

const root = mkdtempSync(join(tmpdir(), "holdfast-plan-"));
const tree = join(root, "tree");
beforeAll(() => {
  mkdirSync(join(tree, "docs"), { recursive: true });
  writeFileSync(join(tree, "docs/plan.md"), "the plan");
  writeFileSync(join(tree, "docs/binary"), Buffer.from([0xff, 0xfe]));
  writeFileSync(join(tree, "docs/large"), "x".repeat(2 * 1024 * 1024));
  writeFileSync(join(root, "outside.md"), "secret");
  symlinkSync(join(root, "outside.md"), join(tree, "docs/link.md"));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const read = (plan_file: string | null) => importedPlan({ plan_file }, tree, createOutputs(tree));

test("the plan of an imported document is read from the worktree", async () => {
  expect(await read("docs/plan.md")).toEqual({ path: "docs/plan.md", text: "the plan" });
  const absolute = join(tree, "docs/plan.md");
  expect(await read(absolute)).toEqual({ path: absolute, text: "the plan" });
});

test.each(["../outside.md", "docs/link.md", "docs", "docs/binary", "docs/large", "docs/none.md", ".git/config", ""])(
  "%j is not read",
  async (path) => {
    expect(await read(path)).toBeNull();
    if (path !== "") expect(await read(join(root, "outside.md"))).toBeNull();
  },
);

test("a document without a plan has none", async () => {
  expect(await read(null)).toBeNull();
  expect(await importedPlan(undefined, tree, createOutputs(tree))).toBeNull();
  expect(planInput(null)).toEqual({ plan: null });
});

test("a plan is an option; anything else is refused", () => {
  const plan = { path: "p", text: "t" };
  expect(parseImplOptions({ plan }).options.plan).toEqual(plan);
  expect(parseImplOptions({}).options.plan).toBeNull();
  for (const bad of ["text", { path: "p" }, { ...plan, more: 1 }, { path: "p", text: "x".repeat(1024 * 1024 + 1) }])
    expect(() => parseImplOptions({ plan: bad })).toThrow(expect.objectContaining({ code: "USAGE" }));
});

test.each([
  ["{{iteration_section}}", /marker[^]*<data-0a1b source="plan">the plan</],
  ["{{plan_section}} then {{iteration_section}}", /<data-0a1b source="plan">the plan<[^]*then[^]*marker/],
  ["{# plan_section #}{{iteration_section}}", /the plan[^]*marker/],
])("template %j has the plan once", (template, form) => {
  const text = implPrompt({
    template,
    issue: { number: 1, title: "T", body: "", labels: [], state: "open", updatedAt: "" },
    tags: [],
    baseBranch: "main",
    iteration: 1,
    maxIterations: 2,
    marker: "THE MARKER",
    reason: null,
    feedback: null,
    previousOutput: null,
    previousCommitReport: null,
    plan: { path: "p", text: "the plan" },
    facts: { agent: null, gate: null, state: initialImplState },
    fence: createFence("0a1b"),
  });
  expect(text).toMatch(form);
  expect(text.split("the plan<")).toHaveLength(2);
});
