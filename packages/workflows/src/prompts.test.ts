import { readdirSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BUILT_IN_NAMES, loadPlugin } from "./built-in.ts";
import { IMPL_PROMPTS } from "./impl/prompts.ts";
import {
  allTemplates,
  builtInTemplate,
  checkTemplate,
  expandTemplate,
  loadTemplates,
  parsePrompts,
  promptNames,
} from "./prompts.ts";

const placeholders = IMPL_PROMPTS.table.impl;
const nothing = { read: async () => null };

describe.each(BUILT_IN_NAMES)("the built-in templates of %s", async (workflow) => {
  const { prompts } = await pluginOf(workflow);

  test.each(promptNames(prompts))("%s has all of its placeholders and no other", (name) => {
    const template = builtInTemplate(workflow, name);
    checkTemplate({ what: name, template, ...(prompts.table[name] ?? { required: ["?"], optional: [] }) });
  });

  test("every file in prompts/ is in the table", () => {
    const files = readdirSync(join(import.meta.dirname, workflow, "prompts"));
    expect(files.toSorted()).toEqual(
      promptNames(prompts)
        .map((name) => `${name}.md`)
        .toSorted(),
    );
  });
});

test("inserted text comes out unchanged, in the order of the template", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (a, b) => {
      const values = { a: `{{b}}${a}$&`, b: `{#a#}${b}` };
      expect(expandTemplate("1{{a}}2{#b#}3{{a}}", values)).toBe(`1${values.a}2${values.b}3${values.a}`);
    }),
  );
});

test("both forms of a placeholder count, with or without spaces", () => {
  checkTemplate({ what: "t", template: "{{a}} {# b #} {{ c }}", required: ["a", "b", "c"], optional: [] });
  expect(expandTemplate("{{a}}{# a #}{{ a }}", { a: "x" })).toBe("xxx");
});

describe("a user's template", () => {
  const text = placeholders.required.map((name) => `{{${name}}}`).join(" ");

  test("every missing and every unknown placeholder is named", () => {
    const check = () =>
      checkTemplate({ what: "The template", template: "{{issue_no}} {{isue_file}}", ...placeholders });
    expect(check).toThrow(
      expect.objectContaining({
        code: "CONFIG_INVALID",
        data: {
          missing: placeholders.required.filter((name) => name !== "issue_no"),
          unknown: ["isue_file"],
        },
      }),
    );
  });

  test("replaces one prompt, as text or as a file of the worktree", async () => {
    const built = allTemplates(IMPL_PROMPTS, null);
    const own = parsePrompts(IMPL_PROMPTS, { prompts: { impl: { text } } });
    expect(await loadTemplates(IMPL_PROMPTS, own, nothing)).toEqual({ ...built, impl: text });
    const named = parsePrompts(IMPL_PROMPTS, { prompts: { impl: { path: "p.md" } } });
    expect((await loadTemplates(IMPL_PROMPTS, named, { read: async () => text })).impl).toBe(text);
    await expect(loadTemplates(IMPL_PROMPTS, named, nothing)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });

  test("without a required placeholder is refused before work", async () => {
    const own = parsePrompts(IMPL_PROMPTS, { prompts: { review: { text: "Review it." } } });
    await expect(loadTemplates(IMPL_PROMPTS, own, nothing)).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      data: { missing: IMPL_PROMPTS.table.review.required },
    });
  });
});

test("a run keeps its stored templates and gets the built-in one for a prompt that it lacks", () => {
  const templates = allTemplates(IMPL_PROMPTS, { impl: "stored", review: "stored too" });
  expect(templates).toMatchObject({ impl: "stored", review: "stored too" });
  expect(templates.rebase).toBe(builtInTemplate("impl", "rebase"));
});

async function pluginOf(workflow: string) {
  const plugin = await loadPlugin(workflow);
  if (plugin === null) throw new Error(workflow);
  return plugin;
}
