import { afterEach, describe, expect, test } from "vitest";
import type { Forge } from "@holdfast/core/forge";
import { HoldfastError } from "@holdfast/platform/error";
import {
  type GithubScene,
  TOKEN,
  createGithubScene,
  forgeTransports,
} from "@holdfast/test-support/forges/forge-scenes";
import type { Fault } from "@holdfast/test-support/forges/forge-server";
import { createSetClock } from "@holdfast/testing/store-contract/harness";

describe("faults", () => {
  let scene: GithubScene | undefined;

  afterEach(async () => {
    await scene?.dispose();
    scene = undefined;
  });

  const NOW = Date.UTC(2026, 2, 1, 12);
  const at = (seconds: number): string => new Date(NOW + seconds * 1000).toISOString();

  interface Row {
    readonly effect: Fault["effect"];
    readonly error: Readonly<Record<string, unknown>>;
  }

  const answer = (
    status: number,
    message: string,
    headers: Readonly<Record<string, string>> = {},
  ): Fault["effect"] => ({
    kind: "answer",
    status,
    headers,
    body: { message: `${message} (for ${TOKEN})` },
  });
  const later = (until: string): Row["error"] => ({
    code: "FORGE_FAILED",
    retry: "later",
    data: { why: "rate_limit", until },
  });
  const denied = (hint: RegExp): Row["error"] => ({
    code: "FORGE_DENIED",
    retry: "ask",
    hint: expect.stringMatching(hint),
  });
  const failed = { code: "FORGE_FAILED", retry: "later" };
  const reset = String(NOW / 1000 + 900);

  const TABLE: Readonly<Record<string, Row>> = {
    "an expired token": { effect: answer(401, "Bad credentials"), error: denied(/gh auth login|GH_TOKEN/) },
    "no right to do it": {
      effect: answer(403, "Resource not accessible by personal access token"),
      error: denied(/access to this repository/),
    },
    "scopes that are missing": {
      effect: answer(403, "Must have admin rights", { "x-accepted-oauth-scopes": "repo", "x-oauth-scopes": "gist" }),
      error: denied(/has "gist" and needs one of "repo"/),
    },
    "single sign-on": {
      effect: answer(403, "Resource protected by organization SAML enforcement", {
        "x-github-sso": "required; url=https://github.com/orgs/o/sso",
      }),
      error: denied(/single sign-on/),
    },
    "the hourly limit": {
      effect: answer(403, "API rate limit exceeded", { "x-ratelimit-remaining": "0", "x-ratelimit-reset": reset }),
      error: later(at(900)),
    },
    "a secondary limit with a time": {
      effect: answer(403, "You have exceeded a secondary rate limit", { "retry-after": "30" }),
      error: later(at(30)),
    },
    "a secondary limit without one": {
      effect: answer(403, "You have exceeded a secondary rate limit", { "x-ratelimit-remaining": "4000" }),
      error: later(at(60)),
    },
    "429": { effect: answer(429, "Too many requests", { "retry-after": "7" }), error: later(at(7)) },
    "503 with a time": { effect: answer(503, "Busy", { "retry-after": "20" }), error: later(at(20)) },
    "500": { effect: answer(500, "Server Error"), error: failed },
    "502 as a page": { effect: { kind: "answer", status: 502, body: "<html>Bad Gateway</html>" }, error: failed },
    "a login page of a proxy": { effect: { kind: "answer", status: 200, body: "<html>Log in</html>" }, error: failed },
    "another shape": { effect: { kind: "answer", status: 200, body: { number: "one" } }, error: failed },
    "a dropped connection": { effect: { kind: "drop" }, error: failed },
    "an answer that is cut off": { effect: { kind: "cut" }, error: failed },
  };

  for (const way of forgeTransports("gh")) {
    describe.skipIf(way.skip)(`faults of GitHub through ${way.name}`, () => {
      test.each(Object.keys(TABLE))("%s: cause and remedy are reported, without a token", async (name) => {
        const row = TABLE[name];
        if (row === undefined) throw new Error(`no row ${name}`);
        scene = await createGithubScene(way.program);
        const forge = scene.forge({ clock: createSetClock(at(0)) });
        scene.server.faults.set({ match: /\/issues/, times: 99, when: "before", effect: row.effect });
        const error = await rejection(forge.getIssue(1));
        expect(error).toMatchObject(row.error);
        expect(printedError(error)).not.toContain(TOKEN);
        expect(error.hint).toBeTruthy();
        const created = await rejection(forge.createIssue({ title: "One", body: "", labels: [], key: "run-1/a/b" }));
        expect(created.code).toBe(row.error["code"]);
        expect(scene.repository.issues).toEqual([]);
      });

      test("a read that fails twice is tried a third time; a limit is not tried again", async () => {
        scene = await createGithubScene(way.program);
        const forge = scene.forge();
        const bad = { kind: "answer", status: 502, body: "" } as const;
        scene.server.faults.set({ match: /^GET .*\/repos\/octo\/app$/, times: 2, when: "after", effect: bad });
        expect(await forge.defaultBranch()).toBe("main");
        expect(scene.server.asked).toHaveLength(3);
        const limit = answer(429, "Too many requests");
        scene.server.faults.set({ match: /^GET/, times: 1, when: "after", effect: limit });
        await expect(forge.defaultBranch()).rejects.toMatchObject({ data: { why: "rate_limit" } });
        expect(scene.server.asked).toHaveLength(4);
      });

      test("an unknown token is denied, with the fix", async () => {
        scene = await createGithubScene(way.program);
        const bad = "ghp_expiredexpiredexpiredexpiredexpired0";
        const error = await rejection(scene.forge({ transport: scene.transport({ token: bad }) }).getIssue(1));
        expect(error.code).toBe("FORGE_DENIED");
        expect(error.hint).toMatch(/gh auth login --hostname github.com|GH_TOKEN/);
        expect(printedError(error)).not.toContain(bad);
      });

      test("in a repository that is not visible, absence is unknown", async () => {
        scene = await createGithubScene(way.program);
        const forge = scene.forge({ name: "hidden" });
        for (const ask of [
          () => forge.getIssue(1),
          () => forge.getPullRequest(1),
          () => forge.findPullRequest("topic"),
          () => forge.findIssue("run-1/a/b"),
          () => forge.defaultBranch(),
        ])
          await expect(ask()).rejects.toMatchObject({ code: "FORGE_DENIED" });
      });

      test("a moved repository is reported, and no request follows the redirect", async () => {
        scene = await createGithubScene(way.program);
        const effect = { kind: "answer", status: 307, body: { message: "Moved Permanently" } } as const;
        scene.server.faults.set({ match: /^POST/, times: 1, when: "before", effect });
        const error = await rejection(
          scene.forge().createIssue({ title: "One", body: "", labels: [], key: "run-1/a/b" }),
        );
        expect([error.code, error.message]).toEqual(["FORGE_REFUSED", expect.stringContaining("has moved")]);
      });

      test("a server that is down is FORGE_FAILED", async () => {
        scene = await createGithubScene(way.program);
        const forge = scene.forge();
        await scene.server.dispose();
        await expect(forge.getIssue(1)).rejects.toMatchObject(failed);
      });
    });
  }

  test("gh without any login is denied, and says how to log in", async () => {
    const [, gh] = forgeTransports("gh");
    if (gh === undefined || gh.skip) return;
    scene = await createGithubScene(gh.program);
    const error = await rejection(scene.forge({ transport: scene.transport({ token: "" }) }).getIssue(1));
    expect(error.code).toBe("FORGE_DENIED");
    expect(error.hint).toContain("gh auth login --hostname github.com");
  });

  async function rejection(work: Promise<unknown>): Promise<HoldfastError> {
    const error: unknown = await work.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (!(error instanceof HoldfastError)) throw new Error(`expected a HoldfastError, got ${String(error)}`);
    return error;
  }

  /** Everything of an error that could end up in a log or in the store. */
  function printedError(error: HoldfastError): string {
    return [error.message, error.hint, JSON.stringify(error.data), String(error.cause), error.stack].join("\n");
  }
});

describe("lost answers", () => {
  let scene: GithubScene | undefined;

  afterEach(async () => {
    await scene?.dispose();
    scene = undefined;
  });

  const EFFECTS: Readonly<Record<string, Fault["effect"]>> = {
    "the connection is dropped": { kind: "drop" },
    "a 502 comes instead": { kind: "answer", status: 502, body: "<html>Bad Gateway</html>" },
    "the answer is cut off": { kind: "cut" },
  };

  const REQUEST = { title: "One", body: "Text.", head: "topic", base: "main", draft: false, key: "run-1/pr/create" };

  /** Each request starts a program, so one effect is sampled per action; HOLDFAST_FULL=1 runs all of them. */
  function sampled(at: number): readonly string[] {
    const all = Object.keys(EFFECTS);
    return process.env["HOLDFAST_FULL"] === "1" ? all : all.filter((_, index) => index === at % all.length);
  }

  interface Act {
    readonly match: RegExp;
    prepare(scene: GithubScene, forge: Forge): Promise<string>;
    act(forge: Forge, head: string): Promise<unknown>;
    /** The number of times the effect was performed. */
    count(scene: GithubScene): number;
  }

  const ACTS: Readonly<Record<string, Act>> = {
    "an issue": {
      match: /^POST .*\/issues$/,
      prepare: async () => "",
      act: (forge) => forge.createIssue({ title: "One", body: "Text.", labels: ["a"], key: "run-1/setup/issue" }),
      count: ({ repository }) => repository.issues.length,
    },
    "a comment": {
      match: /^POST .*\/comments$/,
      async prepare({ repository }, forge) {
        await forge.createIssue({ title: "One", body: "", labels: [], key: "run-1/setup/issue" });
        expect(repository.issues).toHaveLength(1);
        return "";
      },
      act: (forge) => forge.comment(1, { body: "Done.", key: "run-1/done/note" }),
      count: ({ repository }) => repository.comments.length,
    },
    labels: {
      match: /^PUT .*\/labels$/,
      async prepare(_scene, forge) {
        await forge.createIssue({ title: "One", body: "", labels: [], key: "run-1/setup/issue" });
        return "";
      },
      act: (forge) => forge.setLabels(1, ["in progress"]),
      count: ({ repository }) => repository.issues[0]?.labels.length ?? 0,
    },
    "a pull request": {
      match: /^POST .*\/pulls$/,
      prepare: ({ push }) => push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } }),
      act: (forge) => forge.createPullRequest(REQUEST),
      count: ({ repository }) => repository.pulls.length,
    },
    "a pull request's text": {
      match: /^PATCH .*\/pulls\/\d+$/,
      async prepare({ push }, forge) {
        const head = await push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        await forge.createPullRequest(REQUEST);
        return head;
      },
      act: (forge) => forge.updatePullRequest(1, { title: "Two" }),
      count: ({ repository }) => (repository.pulls[0]?.title === "Two" ? 1 : 0),
    },
    "a merge": {
      match: /^PUT .*\/merge$/,
      async prepare({ push }, forge) {
        const head = await push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        await forge.createPullRequest(REQUEST);
        return head;
      },
      act: (forge, head) => forge.mergePullRequest(1, { head }),
      count: ({ remote }) => Number(remote.bare.git("rev-list", "--count", "--merges", "main").trim()),
    },
  };

  for (const way of forgeTransports("gh")) {
    describe.skipIf(way.skip)(`lost answers of GitHub, through ${way.name}`, () => {
      for (const [at, [what, { match, prepare, act, count }]] of Object.entries(ACTS).entries()) {
        test.each(way.program === null ? Object.keys(EFFECTS) : sampled(at))(
          `${what}: done once and adopted when %s`,
          async (how) => {
            scene = await createGithubScene(way.program);
            const forge = scene.forge();
            const head = await prepare(scene, forge);
            const effect = EFFECTS[how] ?? { kind: "drop" };
            scene.server.faults.set({ match, times: 1, when: "after", effect });
            const first = await act(forge, head);
            expect(count(scene)).toBe(1);
            const again = await act(scene.forge(), head);
            expect(count(scene)).toBe(1);
            expect(numberOf(again)).toEqual(numberOf(first));
          },
        );

        test(`${what}: a request that had no effect is not reported as done, and the next attempt does it`, async () => {
          scene = await createGithubScene(way.program);
          const forge = scene.forge();
          const head = await prepare(scene, forge);
          scene.server.faults.set({
            match,
            times: 1,
            when: "before",
            effect: { kind: "answer", status: 502, body: "<html>Bad Gateway</html>" },
          });
          const failed = { code: "FORGE_FAILED", retry: "later" };
          await expect(act(forge, head)).rejects.toMatchObject(failed);
          expect(count(scene)).toBe(0);
          await act(forge, head);
          expect(count(scene)).toBe(1);
        });
      }

      test("an issue, a comment, labels and a pull request whose answers never came, though the server acted, are adopted", async () => {
        scene = await createGithubScene(way.program);
        const { server, repository } = scene;
        await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
        await scene.forge().createIssue({ title: "One", body: "", labels: [], key: "run-1/setup/issue" });
        for (const match of [/^POST .*\/issues$/, /^POST .*\/comments$/, /^PUT .*\/labels$/, /^POST .*\/pulls$/])
          server.faults.set({ match, times: 1, when: "after", effect: { kind: "hang" } });
        const forge = scene.forge({ transport: scene.transport({ timeoutMs: 4000 }) });
        const [, , , pull] = await Promise.all([
          forge.createIssue({ title: "Two", body: "", labels: [], key: "run-1/setup/other" }),
          forge.comment(1, { body: "Done.", key: "run-1/done/note" }),
          forge.setLabels(1, ["in progress"]),
          forge.createPullRequest(REQUEST),
        ]);
        expect(server.faults.left).toBe(0);
        expect(repository.pulls.map(({ number }) => number)).toEqual([pull.number]);
        expect([repository.issues.length, repository.comments.length]).toEqual([2, 1]);
        expect(repository.issues[0]?.labels).toEqual(["in progress"]);
      });
    });
  }

  function numberOf(value: unknown): unknown {
    if (typeof value !== "object" || value === null) return null;
    return "number" in value ? value.number : "url" in value ? value.url : null;
  }
});
