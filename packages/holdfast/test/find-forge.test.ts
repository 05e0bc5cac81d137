import { afterEach, expect, test } from "vitest";
import { systemClock } from "@holdfast/platform/clock";
import {
  GITLAB_TOKEN,
  type GithubScene,
  TOKEN,
  createGithubScene,
  createGitlabScene,
  forgeTransports,
} from "@holdfast/test-support/forges/forge-scenes";
import { type TestRepository, createTestRepository } from "@holdfast/test-support/git/repository";
import { createGitBranches } from "@holdfast/git/branches";
import { openGitWorkspaces } from "@holdfast/git/workspaces";
import { type ForgeChoice, findForge, observeForgeLogin } from "../src/find-forge.ts";

let repository: TestRepository | undefined;
let scene: GithubScene | undefined;

afterEach(async () => {
  repository?.dispose();
  await scene?.dispose();
  [repository, scene] = [undefined, undefined];
});

const AUTO: ForgeChoice = { kind: "auto", path: null };

function withRemotes(remotes: Readonly<Record<string, string>>): TestRepository {
  const made = createTestRepository();
  made.git("commit", "-q", "--allow-empty", "-m", "first");
  for (const [name, url] of Object.entries(remotes)) made.git("remote", "add", name, url);
  return made;
}

async function find(root: string, env: NodeJS.ProcessEnv, choice: ForgeChoice = AUTO): ReturnType<typeof findForge> {
  return await findForge({
    choice,
    workspaces: await openGitWorkspaces(root),
    branches: createGitBranches(),
    clock: systemClock,
    env,
  });
}

for (const way of forgeTransports("gh")) {
  test.skipIf(way.skip)(`a clone of GitHub works with GitHub, through ${way.name}`, async () => {
    scene = await createGithubScene(way.program);
    repository = withRemotes({ origin: "https://github.com/octo/app.git" });
    const actions = { GITHUB_SERVER_URL: "https://github.com", GITHUB_API_URL: scene.server.url };
    const env = way.program === null ? { ...actions, GITHUB_TOKEN: TOKEN, PATH: "/nowhere" } : scene.env;
    const forge = await find(repository.root, env);
    expect([forge?.name, forge?.location]).toEqual(["github", "https://github.com/octo/app"]);
    expect(await forge?.defaultBranch()).toBe("main");
    const seen = await observeForgeLogin({ choice: AUTO, folder: repository.root, env });
    expect(seen).toMatchObject({ name: "github", login: way.program === null ? "GITHUB_TOKEN" : "gh", fix: null });
  });
}

test("a clone of GitLab works with GitLab", async () => {
  const gitlab = await createGitlabScene(null);
  try {
    repository = withRemotes({ origin: "git@gitlab.com:team/tools/app.git" });
    const root = `${gitlab.server.url}/api/v4`;
    const env = { PATH: "/nowhere", GITLAB_TOKEN, CI_SERVER_URL: "https://gitlab.com", CI_API_V4_URL: root };
    const forge = await find(repository.root, env);
    expect([forge?.name, forge?.location]).toEqual(["gitlab", "https://gitlab.com/team/tools/app"]);
    expect(await forge?.defaultBranch()).toBe("main");
    const seen = await observeForgeLogin({ choice: AUTO, folder: repository.root, env });
    expect(seen).toMatchObject({ name: "gitlab", login: "GITLAB_TOKEN", fix: null });
  } finally {
    await gitlab.dispose();
  }
});

test("with neither gh nor a token it is denied on use, and doctor names the fix", async () => {
  repository = withRemotes({ origin: "git@github.com:octo/app.git" });
  const env = { PATH: "/nowhere" };
  const forge = await find(repository.root, env);
  await expect(forge?.getIssue(1)).rejects.toMatchObject({
    code: "FORGE_DENIED",
    hint: expect.stringContaining("GH_TOKEN"),
  });
  const seen = await observeForgeLogin({ choice: AUTO, folder: repository.root, env });
  expect(seen?.fix).toContain("gh auth login");
});

test("with upstream and origin: everything at upstream, the head from the fork", async () => {
  scene = await createGithubScene(null);
  repository = withRemotes({ origin: "git@github.com:dev/app.git", upstream: "https://github.com/octo/app.git" });
  const { server } = scene;
  const env = {
    PATH: "/nowhere",
    GH_TOKEN: TOKEN,
    GITHUB_SERVER_URL: "https://github.com",
    GITHUB_API_URL: server.url,
  };
  const forge = await find(repository.root, env);
  expect(forge?.location).toBe("https://github.com/octo/app");
  await forge?.findPullRequest("topic");
  expect(server.asked.at(-1)).toContain("head=dev%3Atopic");
});

test("a setting takes precedence over the remote", async () => {
  repository = withRemotes({ origin: "https://github.com/octo/app.git" });
  expect(await find(repository.root, {}, { kind: "none", path: null })).toBeNull();
  await expect(find(repository.root, {}, { kind: "local", path: null })).rejects.toMatchObject({ code: "USAGE" });
  const ghe = await find(repository.root, {}, { kind: "github", path: null, host: "ghe.example.com" });
  expect(ghe?.location).toBe("https://ghe.example.com/octo/app");
});

test("GitHub by setting without a matching remote is refused; otherwise there is no forge", async () => {
  repository = withRemotes({ origin: "https://code.example.com/octo/app.git" });
  expect(await find(repository.root, {})).toBeNull();
  repository.git("remote", "remove", "origin");
  await expect(find(repository.root, {}, { kind: "github", path: null })).rejects.toMatchObject({ code: "USAGE" });
});
