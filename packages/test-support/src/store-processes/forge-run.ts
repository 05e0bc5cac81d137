// A child process that creates an issue, comments on it, labels it and opens a pull request, through a forge's real program. While it
// waits it creates the file `waiting`, and it continues when the test creates `waited`.

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { systemCommands } from "@holdfast/core/commands";
import type { Lookup } from "@holdfast/core/effects";
import { executeRun } from "@holdfast/core/execute";
import type { Forge } from "@holdfast/core/forge";
import type { Json } from "@holdfast/core/json";
import type { EffectSpec } from "@holdfast/core/workflow";
import { createGhTransport, openGithubForge } from "@holdfast/forges/github";
import { systemClock } from "@holdfast/platform/clock";
import { livenessOf, processIdentity } from "@holdfast/platform/identity";
import { openSqliteStore } from "@holdfast/core/store-sql/open";
import { ID, begin, createTestAdapters, define } from "../core/work-bench.ts";

const [folder = "", program = ""] = process.argv.slice(2);
const store = await openSqliteStore({ directory: join(folder, "store") });
const transport = createGhTransport({ program, host: "github.com", env: process.env });
const forge = openGithubForge({ transport, host: "github.com", owner: "octo", name: "app", pauseMs: 1 });
const { adapters: bench } = createTestAdapters({ store, clock: systemClock });
const adapters = {
  ...bench,
  commands: systemCommands,
  liveness: (owner: Parameters<typeof livenessOf>[0]) => livenessOf(owner, processIdentity()),
  wait: async () => {
    writeFileSync(join(folder, "waiting"), "");
    while (!existsSync(join(folder, "waited"))) await setTimeout(20);
  },
};
const workflow = define({
  work: async ({ effect }) => {
    for (const one of effects(forge)) await effect(one);
    return { event: "worked", reason: "did it" };
  },
});
await begin(adapters, workflow);
const outcome = await executeRun({ adapters, run: ID, workflow, signal: new AbortController().signal });
await store.close();
process.exitCode = outcome.kind === "done" ? 0 : 1;

function effects({ lateMs }: Forge): readonly EffectSpec<Json>[] {
  const act = async (mark: string, work: (own: Forge) => Promise<unknown>) => {
    await work(forge.marked(mark));
    return { kind: "done", receipt: null } as const;
  };
  const looked = async (found: Promise<unknown>): Promise<Lookup> =>
    (await found) === null ? { kind: "absent" } : { kind: "present", receipt: null };
  const labels = ["in progress"];
  const isLabelled = async () => ((await forge.getIssue(2))?.labels.length === 1 ? true : null);
  const request = { title: "One", body: "Text.", head: "topic", base: "main", draft: false };
  const what = { target: "github", payload: null, lateMs };
  return [
    {
      ...what,
      purpose: "issue",
      kind: "issue",
      lookUp: () => looked(forge.findIssue(`${ID}/work/issue.1`)),
      act: (key, { mark }) => act(mark, (own) => own.createIssue({ title: "Two", body: "", labels: [], key })),
    },
    {
      ...what,
      purpose: "comment",
      kind: "comment",
      lookUp: () => looked(forge.findComment(2, `${ID}/work/comment.1`)),
      act: (key, { mark }) => act(mark, (own) => own.comment(2, { body: "Hello.", key })),
    },
    {
      ...what,
      purpose: "labels",
      kind: "labels",
      lookUp: () => looked(isLabelled()),
      act: (_key, { mark }) => act(mark, (own) => own.setLabels(2, labels)),
    },
    {
      ...what,
      purpose: "pull-request",
      kind: "pull_request",
      lookUp: () => looked(forge.findPullRequest("topic")),
      act: (key, { mark }) => act(mark, (own) => own.createPullRequest({ ...request, key })),
    },
  ];
}
