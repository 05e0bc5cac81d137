import { afterEach, describe, expect, test } from "vitest";
import type { Forge } from "../../ports/forge.ts";
import type { Fault } from "../../testing/forge-server/faults.ts";
import { createGithubScene, type GithubScene } from "../../testing/scenes/github-scene.ts";
import { waysToForge } from "../../testing/ways-to-forge.ts";

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

/** A program is started for each request: one effect an act, each of them somewhere; HOLDFAST_FULL=1 for all. */
function sampled(at: number): readonly string[] {
  const all = Object.keys(EFFECTS);
  return process.env["HOLDFAST_FULL"] === "1" ? all : all.filter((_, index) => index === at % all.length);
}

interface Act {
  readonly match: RegExp;
  prepare(scene: GithubScene, forge: Forge): Promise<string>;
  act(forge: Forge, head: string): Promise<unknown>;
  /** How often it was done. */
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

for (const way of waysToForge("gh")) {
  describe.skipIf(way.skip)(`answers of GitHub that are lost, through ${way.name}`, () => {
    for (const [at, [what, { match, prepare, act, count }]] of Object.entries(ACTS).entries()) {
      test.each(way.program === null ? Object.keys(EFFECTS) : sampled(at))(
        `${what} that was made is adopted when %s, and made once`,
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

      test(`${what} that was not made is not said to be, and is made the next time`, async () => {
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
