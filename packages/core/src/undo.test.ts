import { describe, expect, test } from "vitest";
import type { Effect } from "./effects.ts";
import type { Json } from "./json.ts";
import { type RecordedEffect, describeUndo, planUndo } from "./undo.ts";

const COMMIT = "a".repeat(40);
const BEFORE = "b".repeat(40);

function recorded(
  kind: string,
  about: { target: string; payload?: Json; receipt?: Json; state?: Effect["state"] },
): RecordedEffect {
  const { target, payload = {}, receipt = null } = about;
  const state = about.state ?? { kind: "done", at: "2026-11-17T12:00:00.000Z", adopted: false, receipt };
  return { effect: { run: "r", key: `r/s/${kind}`, kind, target, payload: "", state }, payload, entry: 7 };
}

function textOf(effect: RecordedEffect): string {
  const plan = planUndo(effect);
  return plan.kind === "refused" ? `no: ${plan.why}` : describeUndo(plan);
}

describe("each kind is undone or refused with the reason", () => {
  test.each([
    [recorded("push", { target: "/r.git b", receipt: { commit: COMMIT } }), /^Delete branch b at \/r.git/],
    [
      recorded("push", { target: "/r.git b", payload: { expected: BEFORE }, receipt: { commit: COMMIT } }),
      /back to bbbbbbbbbb, if it is still at aaaaaaaaaa$/,
    ],
    [recorded("push", { target: "/my r.git b", receipt: { commit: COMMIT } }), /^Delete branch b at \/my r.git,/],
    [recorded("pull_request", { target: "github b", receipt: { number: 3, url: "u" } }), /^Close pull request #3/],
    [recorded("state_label", { target: "github #4", payload: { label: "state:dev" } }), /state:dev from issue #4/],
    [
      recorded("label", { target: "github #4", payload: { label: "x", pullRequest: 4 } }),
      /^Remove the label x from pull request #4/,
    ],
    [recorded("comment", { target: "github #4", receipt: { url: "u" } }), /^Delete the comment u$/],
    [recorded("pull_request_text", { target: "github #4" }), /^no: the text that it replaced is not recorded/],
    [recorded("commit", { target: "b" }), /^no: a commit is part of the files/],
    [recorded("merge", { target: "github #4" }), /^no: others may have built on a merge/],
    [recorded("deploy", { target: "production" }), /^no: Holdfast knows no way back for effects of the kind deploy/],
  ])("%#", (effect, text) => {
    expect(textOf(effect)).toMatch(text);
  });

  test("a label that was there before the run is not removed", () => {
    const state = { kind: "done", at: "", adopted: true, receipt: {} } as const;
    const effect = recorded("state_label", { target: "github #4", payload: { label: "state:dev" }, state });
    expect(textOf(effect)).toMatch(/^no: the label state:dev was there before/);
  });

  test.each([
    [{ kind: "intended", at: "" }, /not known whether/],
    [{ kind: "unknown", at: "", reason: "x" }, /not known whether/],
    [{ kind: "failed", at: "", reason: "x" }, /it failed/],
    [{ kind: "undone", at: "now", adopted: false, receipt: {}, undo: {} }, /was undone at now/],
  ] as const)("an effect that is not done: %#", (state, text) => {
    expect(textOf(recorded("push", { target: "/r.git b", state }))).toMatch(text);
  });
});

test.each([
  recorded("push", { target: "/r.git b", receipt: { commit: "HEAD" } }),
  recorded("push", { target: "/r.git b --mirror", receipt: { commit: COMMIT } }),
  recorded("push", { target: "/r.git b", payload: { expected: "--all" }, receipt: { commit: COMMIT } }),
  recorded("pull_request", { target: "github b", receipt: { number: "3", url: "u" } }),
  recorded("pull_request", { target: "github b", receipt: [3] }),
  recorded("pull_request", { target: "github b", receipt: { number: -3, url: "u" } }),
  recorded("label", { target: "github #4/../5", payload: { label: "x" } }),
  recorded("label", { target: "github #4", payload: { label: { name: "x" } } }),
  recorded("label", { target: "github #4", payload: { label: "x", pullRequest: 5 } }),
  recorded("comment", { target: "github #4", receipt: "u" }),
])("a record of another form is refused, never guessed: %#", (effect) => {
  expect(textOf(effect)).toMatch(/^no: its record does not have the form/);
});
