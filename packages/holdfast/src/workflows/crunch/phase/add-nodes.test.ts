import { expect, test } from "vitest";
import { sampleNode } from "../../../core/graph-sample.ts";
import { planNodes } from "./add-nodes.ts";

test("what is handed over and what is found become nodes of team members, after the one who said so", () => {
  const node = sampleNode("spec", ["brief"]);
  const reply = {
    handoff: { to: "dev-go", reason: "It is Go." },
    followUps: [
      { agent: "nobody", action: "implement", task: "That." },
      { agent: "reviewer", action: "review_code", task: "This." },
    ],
  };
  const planned = planNodes({ node, attempt: 2, reply, members: ["dev-go", "reviewer"] });
  expect(planned.map((one) => [one.node.id, one.node.agent, one.node.action])).toEqual([
    ["spec-2-handoff", "dev-go", node.action],
    ["spec-2-follow-up-2", "reviewer", "review_code"],
  ]);
  for (const one of planned) expect(one.node.dependencies).toEqual(["spec"]);
});
