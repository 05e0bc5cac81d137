import { expect, test } from "vitest";
import { sampleNode } from "@holdfast/test-support/core/graph-sample";
import { planFollowUps } from "./node-result.ts";

const node = sampleNode("spec", ["brief"]);
const members = ["dev-go", "reviewer"];
const given = { node, attempt: 2, task: "Write it.", members, size: 3, depth: 0 };
const handoff = { to: "dev-go", reason: "It is Go." };
const findings = (count: number) =>
  Array.from({ length: count }, (_, at) => ({ agent: "reviewer", action: "review_code", task: `This, ${at}.` }));

test("handovers and findings become nodes of team members, after the node of their author, each with its task", () => {
  const followUps = [{ agent: "absent", action: "implement", task: "That." }, ...findings(1)];
  const { nodes, left, stranded } = planFollowUps({ ...given, reply: { handoff, followUps } });
  expect(nodes.map((one) => [one.id, one.agent, one.action, one.task])).toEqual([
    ["spec-2-handoff", "dev-go", node.action, `Write it.\n${node.agent} handed this over to you: It is Go.`],
    ["spec-2-follow-up-2", "reviewer", "review_code", "This, 0."],
  ]);
  expect(left).toEqual(["That. (for absent, who is not of the team)"]);
  expect(stranded).toBeNull();
});

test("work handed to an agent outside of the team does not count as done", () => {
  for (const to of ["absent", "__proto__", "../.."]) {
    const { nodes, stranded } = planFollowUps({ ...given, reply: { handoff: { ...handoff, to }, followUps: [] } });
    expect(nodes).toEqual([]);
    expect(stranded).toBe(`it hands its work over to ${to}, who is not of the team: It is Go.`);
  }
});

test("agents that hand the same work around, or find ever more, reach a limit", () => {
  const deep = planFollowUps({ ...given, depth: 3, reply: { handoff, followUps: findings(1) } });
  expect(deep.nodes).toEqual([]);
  expect([deep.stranded, ...deep.left]).toEqual(Array(2).fill(expect.stringContaining("3 others already")));
  const many = planFollowUps({ ...given, reply: { handoff: null, followUps: findings(500) } });
  expect([many.nodes.length, many.left.length]).toEqual([10, 490]);
  const full = planFollowUps({ ...given, size: 98, reply: { handoff: null, followUps: findings(5) } });
  expect([full.nodes.length, full.left.length]).toEqual([2, 3]);
});
