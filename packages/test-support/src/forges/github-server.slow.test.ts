import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { runProcess } from "@holdfast/platform/subprocess";
import { testRepositoryAt } from "../git/repository.ts";
import { type GithubScene, createGithubScene, forgeTransports } from "./forge-scenes.ts";

let scene: GithubScene | undefined;

afterEach(async () => {
  await scene?.dispose();
  scene = undefined;
});

const [, gh] = forgeTransports("gh");

test.skipIf(gh.skip)(`the usual commands of ${gh.name} work on the loopback GitHub`, async () => {
  scene = await createGithubScene(gh.program);
  const { repository } = scene;
  const head = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
  const { remote } = scene;
  remote.bare.git("clone", "-q", remote.bare.root, join(remote.folder, "clone"));
  testRepositoryAt(join(remote.folder, "clone")).git("remote", "set-url", "origin", "https://github.com/octo/app.git");
  await run("issue", "create", "--title", "Answer", "--body", "What is it?");
  await run("issue", "comment", "1", "--body", "Soon.");
  expect(await json("issue", "view", "1", "--json", "number,title,body,state,comments")).toMatchObject({
    number: 1,
    title: "Answer",
    body: "What is it?",
    state: "OPEN",
    comments: [{ body: "Soon." }],
  });
  expect(await json("issue", "list", "--json", "number")).toEqual([{ number: 1 }]);
  const create = ["pr", "create", "--head", "topic", "--base", "main", "--title", "One", "--body", "Closes #1"];
  await run(...create);
  expect((await ran(...create)).code).toBe(1);
  expect(repository.pulls).toHaveLength(1);
  const fields = "number,headRefOid,mergeable,mergeStateStatus,isDraft,statusCheckRollup";
  await json("pr", "view", "2", "--json", fields);
  expect(await json("pr", "view", "2", "--json", fields)).toMatchObject({
    number: 2,
    headRefOid: head,
    mergeable: "MERGEABLE",
    mergeStateStatus: "CLEAN",
  });
  await scene.writeChecks(head, [
    { name: "test", state: "passed", summary: "" },
    { name: "old-ci", state: "passed", summary: "" },
  ]);
  const checks = await ran("pr", "checks", "2");
  expect(checks.stdout.toString("utf8")).toMatch(/test\s+pass[^]*old-ci\s+pass|old-ci\s+pass[^]*test\s+pass/);
  await run("pr", "comment", "2", "--body", "Fine.");
  await run("pr", "merge", "2", "--merge", "--match-head-commit", head);
  expect(repository.pulls[0]?.mergeCommit).toBe(await scene.tip("main"));
  expect(repository.issues[0]?.state).toBe("closed");
  expect((await ran("issue", "view", "99")).stderr).toContain("Could not resolve");
});

function ran(...args: readonly string[]): ReturnType<typeof runProcess> {
  return runProcess({
    command: gh.program ?? "gh",
    args,
    cwd: join(scene?.remote.folder ?? ".", "clone"),
    env: { ...scene?.env, GH_REPO: "octo/app", GH_PROMPT_DISABLED: "1", NO_COLOR: "1" },
  });
}

async function run(...args: readonly string[]): Promise<string> {
  const result = await ran(...args);
  const said = result.stdout.toString("utf8");
  expect(result.code, `${args.join(" ")}\n${said}${result.stderr}`).toBe(0);
  return said;
}

async function json(...args: readonly string[]): Promise<unknown> {
  return JSON.parse(await run(...args));
}
