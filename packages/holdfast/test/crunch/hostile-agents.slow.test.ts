import { expect, test } from "vitest";
import { node, reply, settings, writes } from "./answers.ts";
import { makeBench } from "./bench.ts";

test("a request to fix a conflict of files is answered like any other", async () => {
  const graph = [node("one", "dev-python", { edits: true }), node("two", "dev-go", { edits: true })];
  await using bench = await makeBench({
    answers: [
      writes("one", "shared.txt", "by one\n"),
      writes("two", "shared.txt", "by two\n"),
      writes("fix-two", "shared.txt", "by one and two\n"),
    ],
    options: { ...settings({ implementing: graph }), target: "implementing" },
    issue: { labels: ["state:ready"] },
  });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  const { records } = (await bench.state()).messages;
  const requests = records.filter(({ message }) => message.type === "REQUEST");
  expect(requests.map(({ status }) => status.kind)).toEqual(["answered", "answered", "answered"]);
});

test("agents that hand the same work around are ended, and the user is asked; further work is described to them", async () => {
  const round = ["spec", "spec-1-handoff", "spec-1-handoff-1-handoff", "spec-1-handoff-1-handoff-1-handoff"];
  const answers = round.map((id, at) =>
    reply(id, {
      status: "PARTIAL",
      handoff: { to: at % 2 === 0 ? "dev-go" : "dev-python", reason: "Not mine." },
      follow_ups: at === 0 ? [{ agent: "reviewer", action: "review_code", task: "Look at the door." }] : [],
    }),
  );
  await using bench = await makeBench({
    answers: [...answers, reply("spec-1-follow-up-1")],
    options: { ...settings(), target: "enrich" },
  });
  expect(await bench.work()).toMatchObject({
    kind: "waiting",
    for: "you",
    reason: expect.stringContaining("came through 3 others already"),
  });
  await bench.answer("leave it");
  expect(await bench.work()).toMatchObject({ kind: "done" });
  const { records } = (await bench.state()).messages;
  const asked = records.flatMap(({ message }) => (message.type === "REQUEST" ? [message.payload] : []));
  const promptOf = (id: string): string => asked.find((one) => one.node === id)?.prompt ?? "";
  expect(promptOf("spec-1-follow-up-1")).toContain("Look at the door.");
  expect(promptOf("spec-1-handoff")).toContain("handed this over to you: Not mine.");
  expect(asked).toHaveLength(5);
});
