import { expect, test } from "vitest";
import { PASS, node, settings } from "./answers.ts";
import { makeBench } from "./bench.ts";

test("agents that work after a specification read all of it", async () => {
  const json = JSON.stringify({ status: "SUCCESS", summary: "The specification is written." });
  const answer = {
    when: { role: "spec" },
    reply: `# Specification\n\n1. Greet in Latin.\n\n\`\`\`json\n${json}\n\`\`\`\n`,
  };
  await using bench = await makeBench({
    answers: [answer, ...PASS],
    options: {
      ...settings({ enrich: [node("spec", "system-architect", { outputs: ["spec"] })] }),
      target: "implementing",
    },
  });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  const { messages, outputs } = await bench.state();
  const prompts = messages.records.flatMap(({ message: { type, payload } }) =>
    type === "REQUEST" ? [payload.prompt] : [],
  );
  expect(prompts[0]).toContain("Deliver: spec. Write it out in your answer");
  expect(prompts[1]).toMatch(
    /by system-architect\n\n<data-\w+ source="an agent">\nwork\n# Specification\n\n1. Greet in Latin./,
  );
  expect(prompts[1]).toContain("The specification is written.");
  expect(outputs.map(({ delivered }) => delivered)).toEqual(["# Specification\n\n1. Greet in Latin.", undefined]);
});

test("an agent that only answers Done. has delivered nothing: it is asked again, and then the user is", async () => {
  const spec = node("spec", "system-architect", { outputs: ["spec"], retries: 1, priority: "critical" });
  await using bench = await makeBench({
    answers: [{ when: { role: "spec" }, reply: "Done." }, ...PASS.slice(1)],
    options: { ...settings({ enrich: [spec] }), target: "enrich" },
  });
  expect(await bench.work()).toMatchObject({
    kind: "waiting",
    for: "you",
    reason: expect.stringContaining("It delivered none of: spec. It answered: Done."),
  });
  const prompts = (await bench.state()).messages.records.flatMap(({ message: { type, payload } }) =>
    type === "REQUEST" ? [payload.prompt] : [],
  );
  expect(prompts.map((prompt) => prompt.includes("An answer without spec counts as failed."))).toEqual([false, true]);
  expect(await bench.read(".tmp/crunch-reply.md")).toContain('"status": "SUCCESS | PARTIAL | BLOCKED | FAILED"');
});

test("an existing file is delivered; one that is only named is not", async () => {
  const spec = node("spec", "system-architect", { outputs: ["spec"], edits: true });
  const reply = (path: string) => JSON.stringify({ status: "SUCCESS", summary: "It is written.", outputs: [path] });
  await using bench = await makeBench({
    answers: [
      { when: { role: "spec", attempt: 1 }, reply: reply("../../etc/passwd") },
      {
        when: { role: "spec" },
        reply: reply("docs/spec.md"),
        edits: [{ do: "write", path: "docs/spec.md", text: "Greet.\n" }],
      },
    ],
    options: { ...settings({ enrich: [{ ...spec, retries: 1 }] }), target: "enrich" },
  });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect((await bench.state()).outputs).toMatchObject([{ node: "spec", location: "docs/spec.md" }]);
});
