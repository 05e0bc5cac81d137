import { expect, test } from "vitest";
import { PASS, node, settings } from "./answers.ts";
import { makeBench } from "./bench.ts";

test("a specification is read, whole, by those who work after it", async () => {
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
