import { expect, test } from "vitest";
import { detectForge } from "./detect-forge.ts";

const AUTO = { kind: "auto", host: null, push: [], env: {} } as const;
const APP = { owner: "octo", name: "app", head: { owner: "octo", name: "app" } };

test.each([
  ["https://github.com/octo/app.git", {}, "github", "github.com"],
  ["ssh://git@ssh.github.com:443/octo/app.git", {}, "github", "github.com"],
  ["git@tenant.ghe.com:octo/app", {}, "github", "tenant.ghe.com"],
  ["git@code.example.com:octo/app", { GH_HOST: "code.example.com" }, "github", "code.example.com"],
  [
    "https://code.example.com/octo/app",
    { GITHUB_SERVER_URL: "https://code.example.com" },
    "github",
    "code.example.com",
  ],
  ["git@gitlab.example.com:octo/app", {}, "gitlab", "gitlab.example.com"],
  ["git@code.example.com:octo/app", { GITLAB_HOST: "https://code.example.com/" }, "gitlab", "code.example.com"],
])("%s with %j", (url, env, kind, host) => {
  expect(detectForge({ ...AUTO, base: [url], env })).toEqual({ kind, host, ...APP });
});

test.each([
  "git@code.example.com:octo/app",
  "/srv/app.git",
  "https://github.com/a/b/c",
  "https://notgithub.com/octo/app",
])("%s is not a known forge", (url) => expect(detectForge({ ...AUTO, base: [url] })).toBeNull());

test("an ssh alias is the forge that the user configured", () => {
  const url = "git@work:octo/app.git";
  expect(detectForge({ ...AUTO, kind: "github", host: "github.com", base: [url], push: [url] })).toEqual({
    kind: "github",
    host: "github.com",
    ...APP,
  });
});

test("pushes go to the fork and everything else to upstream; without upstream there is no fork", () => {
  const base = ["https://github.com/octo/app"];
  expect(detectForge({ ...AUTO, base, push: ["git@github.com:dev/fork.git"] })?.head).toEqual({
    owner: "dev",
    name: "fork",
  });
  expect(detectForge({ ...AUTO, base, push: ["/srv/mirror.git", "git@elsewhere.example:dev/fork"] })?.head).toEqual(
    APP.head,
  );
});

test("a rewritten remote is detected by what is configured, and a shorthand by what git resolves it to", () => {
  const real = "https://github.com/octo/app.git";
  expect(detectForge({ ...AUTO, base: ["http://127.0.0.1:8080/octo/app.git", real] })?.host).toBe("github.com");
  expect(detectForge({ ...AUTO, base: [real, "gh:octo/app"] })?.host).toBe("github.com");
});
