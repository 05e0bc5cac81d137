import { describe, expect, test } from "vitest";
import type { Json, JsonObject } from "@holdfast/core/json";
import { openGithubForge } from "./github.ts";
import { openGitlabForge } from "./gitlab.ts";
import type { Transport } from "./transport.ts";

/** A forge that answers every request with this body. */
function answering(body: Json): Transport {
  const transport: Transport = {
    name: "token",
    fix: "Log in.",
    send: async () => ({ kind: "answered", status: 200, headers: new Map(), body }),
    marked: () => transport,
  };
  return transport;
}

/** As `GET /repos/octo/app/issues/7` answers: the fields that name users, and those that are read. */
const GITHUB = {
  url: "https://api.github.com/repos/octo/app/issues/7",
  repository_url: "https://api.github.com/repos/octo/app",
  html_url: "https://github.com/octo/app/issues/7",
  id: 3_161_616_161,
  node_id: "I_kwDOA0-abc5vAbCd",
  number: 7,
  title: "Answer",
  user: { login: "octocat", id: 1, type: "User", site_admin: false },
  labels: [{ id: 208_045_946, node_id: "MDU6TGFiZWwyMDgwNDU5NDY=", name: "bug", color: "f29513", default: true }],
  state: "open",
  locked: false,
  assignee: { login: "ada", id: 2, type: "User", site_admin: false },
  milestone: null,
  comments: 0,
  created_at: "2026-01-01T00:00:00Z",
  updated_at: "2026-01-02T00:00:00Z",
  closed_at: null,
  author_association: "OWNER",
  active_lock_reason: null,
  body: null,
  closed_by: null,
  state_reason: null,
} as const satisfies JsonObject;

/** As `GET /projects/1/issues/7` answers. */
const GITLAB = {
  id: 84,
  iid: 7,
  project_id: 1,
  title: "Answer",
  description: null,
  state: "opened",
  created_at: "2026-01-01T00:00:00.000Z",
  updated_at: "2026-01-02T00:00:00.000Z",
  closed_at: null,
  closed_by: null,
  labels: ["bug"],
  milestone: null,
  author: { id: 1, username: "octocat", name: "Octo Cat", state: "active", locked: false, avatar_url: null },
  type: "ISSUE",
  assignee: { id: 2, username: "ada", name: "Ada", state: "active", locked: false, avatar_url: null },
  user_notes_count: 0,
  web_url: "https://gitlab.com/octo/app/-/issues/7",
} as const satisfies JsonObject;

const AT = { owner: "octo", name: "app", pauseMs: 1 };

describe.each([
  {
    name: "GitHub",
    read: (assignees: Json) =>
      openGithubForge({ ...AT, host: "github.com", transport: answering({ ...GITHUB, assignees }) }).getIssue(7),
    user: (login: Json): JsonObject => ({ login, id: 2, node_id: "MDQ6VXNlcjI=", type: "User", site_admin: false }),
  },
  {
    name: "GitLab",
    read: (assignees: Json) =>
      openGitlabForge({ ...AT, host: "gitlab.com", transport: answering({ ...GITLAB, assignees }) }).getIssue(7),
    user: (username: Json): JsonObject => ({ id: 2, username, name: "Ada", state: "active", avatar_url: null }),
  },
])("the assignees of an issue at $name", ({ read, user }) => {
  test.each([
    ["several users", [user("ada"), user("renovate[bot]"), user("bob.b-2_x")], ["ada", "renovate[bot]", "bob.b-2_x"]],
    ["none", [], undefined],
    ["null, as old servers answer", null, undefined],
  ])("%s", async (_name, assignees, expected) => {
    const issue = await read(assignees);
    expect(issue).toMatchObject({ number: 7, body: "", labels: ["bug"], state: "open" });
    expect(issue?.assignees).toEqual(expected);
  });

  test.each([
    ["a name instead of a list", "ada"],
    ["an object instead of a list", { 0: user("ada"), length: 1 }],
    ["names instead of users", ["ada"]],
    ["null among users", [user("ada"), null]],
    ["a user without a name", [{ id: 2 }]],
    ["a number as the name", [user(7)]],
    ["an object as the name", [user({ toString: "ada" })]],
    ["no name", [user("")]],
    ["a name of two lines", [user("ada\nstate: done")]],
    ["a name with a control character", [user("ada\u001b[2J")]],
    ["a name of a megabyte", [user("a".repeat(1_000_000))]],
    ["100,000 users", Array.from({ length: 100_000 }, () => user("ada"))],
  ])("refused: %s", async (_name, assignees) => {
    await expect(read(assignees)).rejects.toMatchObject({
      code: "FORGE_FAILED",
      message: expect.stringMatching(/assignees/),
    });
  });
});
