// The contract of forges: cases that every forge adapter must pass, on node:assert alone.

import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import type { CheckRun, Forge, NewPullRequest, PullRequest } from "@holdfast/core/forge";
import { rejectsWith } from "./refuses.ts";

const checkCases: readonly ForgeCase[] = [
  {
    name: 'a commit without any check is "none", which is not a failure',
    async run({ open, push }) {
      const commit = await push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      assert.deepEqual(await (await open()).checks(commit), { state: "none", runs: [] });
    },
  },
  {
    name: "one failure fails, something pending is pending, skipped ones do not count",
    async run({ open, push, writeChecks }) {
      const forge = await open();
      const states = [
        ["passed", ["passed", "skipped"]],
        ["pending", ["passed", "pending"]],
        ["failed", ["pending", "failed", "passed"]],
      ] as const;
      for (const [expected, runs] of states) {
        const commit = await push({ branch: expected, from: "main", files: { "b.txt": `${expected}\n` } });
        await writeChecks(
          commit,
          runs.map((state) => ({ name: `test-${state}`, state, summary: `it ${state}` })),
        );
        const checks = await forge.checks(commit);
        assert.equal(checks.state, expected);
        assert.deepEqual(checks.runs.map(({ state }) => state).sort(), [...runs].sort());
        if (expected === "failed")
          assert.ok(checks.runs.find(({ state }) => state === "failed")?.summary.includes("it failed"));
      }
    },
  },
];

const ISSUE = { title: "Greet people", body: "Say hello.\n\n- politely", labels: ["bug", "good first issue"] };

const issueCases: readonly ForgeCase[] = [
  {
    name: "an issue is read back as it was written; one that does not exist is null",
    async run({ open }) {
      const forge = await open();
      const made = await forge.createIssue({ ...ISSUE, key: "run-1/setup/issue" });
      const read = await (await open()).getIssue(made.number);
      assert.deepEqual(read, made);
      assert.equal(read?.title, ISSUE.title);
      assert.ok(read.body.startsWith(ISSUE.body));
      assert.deepEqual([...read.labels].sort(), ISSUE.labels);
      assert.equal(read.state, "open");
      assert.ok(!Number.isNaN(Date.parse(read.updatedAt)));
      assert.equal(await forge.getIssue(made.number + 1000), null);
    },
  },
  {
    name: "creating an issue twice with one key creates it once; another key makes another",
    async run({ open }) {
      const [forge, other] = [await open(), await open()];
      const first = await forge.createIssue({ ...ISSUE, key: "run-1/setup/issue" });
      const again = await other.createIssue({ ...ISSUE, key: "run-1/setup/issue" });
      const second = await other.createIssue({ ...ISSUE, key: "run-1/setup/issue.2" });
      assert.equal(again.number, first.number);
      assert.notEqual(second.number, first.number);
    },
  },
  {
    name: "an issue is found by its whole key, never by part of it",
    async run({ open }) {
      const forge = await open();
      assert.equal(await forge.findIssue("run-4/setup/issue"), null);
      const made = await forge.createIssue({ ...ISSUE, key: "run-42/setup/issue" });
      assert.equal((await forge.findIssue("run-42/setup/issue"))?.number, made.number);
      assert.equal(await forge.findIssue("run-4/setup/issue"), null);
      assert.equal(await forge.findIssue("2/setup/issue"), null);
      assert.equal(await forge.findIssue("run-42/setup"), null);
    },
  },
  {
    name: "issues created at once get different numbers",
    async run({ open }) {
      const [forge, other] = [await open(), await open()];
      const made = await Promise.all(
        Array.from({ length: 6 }, (_, at) =>
          (at % 2 === 0 ? forge : other).createIssue({ ...ISSUE, key: `run-${at}/setup/issue` }),
        ),
      );
      assert.equal(new Set(made.map(({ number }) => number)).size, 6);
    },
  },
  {
    name: "comments on an issue come oldest first with their authors, without Holdfast's own",
    async run({ open, writeComment }) {
      const forge = await open();
      const { number } = await forge.createIssue({ ...ISSUE, key: "run-1/setup/issue" });
      assert.deepEqual(await forge.issueComments(number), []);
      await writeComment(number, { author: "ann", body: "Please be polite.\n\n- always" });
      await forge.comment(number, { body: "Working on it.", key: "run-1/setup/note" });
      await writeComment(number, { author: "bob", body: "I agree." });
      const found = await (await open()).issueComments(number);
      assert.deepEqual(
        found.map(({ author, body }) => [author, body]),
        [
          ["ann", "Please be polite.\n\n- always"],
          ["bob", "I agree."],
        ],
      );
      for (const { at } of found) assert.ok(at === null || !Number.isNaN(Date.parse(at)));
      await rejectsWith("FORGE_REFUSED", () => forge.issueComments(number + 1000));
    },
  },
  {
    name: "labels are what was set last",
    async run({ open }) {
      const forge = await open();
      const { number } = await forge.createIssue({ ...ISSUE, key: "run-1/setup/issue" });
      await forge.setLabels(number, ["in progress"]);
      await forge.setLabels(number, ["in progress"]);
      assert.deepEqual((await forge.getIssue(number))?.labels, ["in progress"]);
      await forge.setLabels(number, []);
      assert.deepEqual((await forge.getIssue(number))?.labels, []);
      await rejectsWith("FORGE_REFUSED", () => forge.setLabels(number + 1000, ["x"]));
    },
  },
  {
    name: "labels and comments of a pull request are its own, also where an issue has the same number",
    async run({ open, push }) {
      const [forge, other] = [await open(), await open()];
      const { number } = await forge.createIssue({ ...ISSUE, key: "run-1/setup/issue" });
      await push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      const pull = await forge.createPullRequest(pullRequest());
      assert.deepEqual(pull.labels, []);
      const on = { pullRequest: pull.number };
      await forge.setLabels(on, ["in progress"]);
      await other.setLabels(on, ["in progress"]);
      assert.deepEqual((await other.getPullRequest(pull.number))?.labels, ["in progress"]);
      assert.deepEqual([...((await forge.getIssue(number))?.labels ?? [])].sort(), ISSUE.labels);
      await forge.setLabels(on, []);
      assert.deepEqual((await other.getPullRequest(pull.number))?.labels, []);
      assert.equal(await forge.findComment(on, "run-1/done/note"), null);
      const made = await forge.comment(on, { body: "Done.", key: "run-1/done/note" });
      assert.deepEqual(await other.comment(on, { body: "Done.", key: "run-1/done/note" }), made);
      assert.deepEqual(await other.findComment(on, "run-1/done/note"), made);
      assert.equal(await forge.findComment(number, "run-1/done/note"), null);
      const gone = { pullRequest: pull.number + 1000 };
      await rejectsWith("FORGE_REFUSED", () => forge.setLabels(gone, ["x"]));
      await rejectsWith("FORGE_REFUSED", () => forge.comment(gone, { body: "x", key: "run-1/done/note" }));
    },
  },
  {
    name: "a comment is created once for each key, and found by it",
    async run({ open }) {
      const [forge, other] = [await open(), await open()];
      const { number } = await forge.createIssue({ ...ISSUE, key: "run-1/setup/issue" });
      assert.equal(await forge.findComment(number, "run-1/done/note"), null);
      const made = await forge.comment(number, { body: "Done.", key: "run-1/done/note" });
      assert.notEqual(made.url, "");
      assert.deepEqual(await other.comment(number, { body: "Done.", key: "run-1/done/note" }), made);
      assert.deepEqual(await other.findComment(number, "run-1/done/note"), made);
      const second = await other.comment(number, { body: "Done again.", key: "run-1/done/note.2" });
      assert.notEqual(second.url, made.url);
      await rejectsWith("FORGE_REFUSED", () => forge.comment(number + 1000, { body: "x", key: "run-1/done/note" }));
    },
  },
];

const undoCases: readonly ForgeCase[] = [
  {
    name: "a pull request is closed once, stays closed, and leaves its head free for another one",
    async run({ open, push, tip }) {
      const [forge, other] = [await open(), await open()];
      const head = await push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      const { number } = await forge.createPullRequest(pullRequest());
      const [closed, again] = await Promise.all([forge.closePullRequest(number), other.closePullRequest(number)]);
      assert.deepEqual([closed.state, again.state], ["closed", "closed"]);
      assert.equal((await other.closePullRequest(number)).state, "closed");
      assert.equal((await other.getPullRequest(number))?.state, "closed");
      assert.equal(await tip("topic"), head);
      const next = await forge.createPullRequest(pullRequest({ key: "run-1/pr/create-again-2" }));
      assert.notEqual(next.number, number);
      await rejectsWith("FORGE_REFUSED", () => forge.closePullRequest(number + 1000));
    },
  },
  {
    name: "a merged pull request is not closed, and the error says so",
    async run({ open, push }) {
      const forge = await open();
      const head = await push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      const { number } = await forge.createPullRequest(pullRequest());
      await forge.mergePullRequest(number, { head });
      const { data } = await rejectsWith("FORGE_REFUSED", () => forge.closePullRequest(number));
      assert.equal(data["why"], "merged");
      assert.equal((await forge.getPullRequest(number))?.state, "merged");
    },
  },
  {
    name: "a deleted comment is gone, a second deletion changes nothing, and others keep their address",
    async run({ open, push }) {
      const [forge, other] = [await open(), await open()];
      const { number } = await forge.createIssue({ ...ISSUE, key: "run-1/setup/issue" });
      await push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      const pull = await forge.createPullRequest(pullRequest());
      for (const on of [number, { pullRequest: pull.number }]) {
        await forge.comment(on, { body: "Done.", key: "run-1/done/note" });
        const kept = await forge.comment(on, { body: "Done.", key: "run-1/done/note.2" });
        await forge.deleteComment(on, "run-1/done/note");
        await other.deleteComment(on, "run-1/done/note");
        assert.equal(await other.findComment(on, "run-1/done/note"), null);
        assert.deepEqual(await other.findComment(on, "run-1/done/note.2"), kept);
        const made = await forge.comment(on, { body: "Again.", key: "run-1/done/note" });
        assert.notEqual(made.url, kept.url);
      }
      assert.deepEqual(await forge.issueComments(number), []);
      await rejectsWith("FORGE_REFUSED", () => forge.deleteComment(number + 1000, "run-1/done/note"));
    },
  },
];

const mergeCases: readonly ForgeCase[] = [
  {
    name: "mergeability follows the branches: mergeable, behind or mergeable when the base moved, conflicting",
    async run({ open, push }) {
      const forge = await open();
      await push({ branch: "topic", from: "main", files: { "a.txt": "topic\n" } });
      const { number } = await forge.createPullRequest(pullRequest());
      assert.equal((await settledPull(forge, number)).mergeability, "mergeable");
      await push({ branch: "main", files: { "m.txt": "m\n" } });
      // A forge may accept a clean merge onto a moved base, or require that the branch is updated first.
      assert.ok(["mergeable", "behind"].includes((await settledPull(forge, number)).mergeability));
      await push({ branch: "main", files: { "a.txt": "main\n" } });
      assert.equal((await settledPull(forge, number)).mergeability, "conflicting");
    },
  },
  {
    name: "a merge brings the head into the base; a repeated merge changes nothing; the issue that it closes is closed",
    async run({ open, push, tip, isAncestor }) {
      const forge = await open();
      const issue = await forge.createIssue({ title: "One", body: "", labels: [], key: "run-1/setup/one" });
      const other = await forge.createIssue({ title: "Other", body: "", labels: [], key: "run-1/setup/other" });
      const head = await push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      await push({ branch: "main", files: { "m.txt": "m\n" } });
      const { number } = await forge.createPullRequest(
        pullRequest({ body: `Closes #${issue.number}, but says nothing on #${other.number}` }),
      );
      const merged = await forge.mergePullRequest(number, { head });
      assert.equal(merged.state, "merged");
      const base = await tip("main");
      assert.ok(base !== null && (await isAncestor(head, base)));
      assert.equal((await (await open()).mergePullRequest(number, { head })).state, "merged");
      assert.equal(await tip("main"), base);
      assert.equal((await forge.getIssue(issue.number))?.state, "closed");
      assert.equal((await forge.getIssue(other.number))?.state, "open");
      assert.equal((await forge.findPullRequest("topic"))?.state, "merged");
    },
  },
  {
    name: "a head that moved is not merged, nor one that conflicts",
    async run({ open, push, tip }) {
      const forge = await open();
      const head = await push({ branch: "topic", from: "main", files: { "a.txt": "topic\n" } });
      const { number } = await forge.createPullRequest(pullRequest());
      const next = await push({ branch: "topic", files: { "b.txt": "b\n" } });
      const before = await tip("main");
      await rejectsWith("FORGE_REFUSED", () => forge.mergePullRequest(number, { head }));
      assert.equal(await tip("main"), before);
      const main = await push({ branch: "main", files: { "a.txt": "main\n" } });
      await rejectsWith("FORGE_REFUSED", () => forge.mergePullRequest(number, { head: next }));
      assert.equal(await tip("main"), main);
      assert.equal((await forge.getPullRequest(number))?.state, "open");
    },
  },
  {
    name: "after a merge the same head can have another one, and the open one is found before the merged",
    async run({ open, push }) {
      const forge = await open();
      const head = await push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      const first = await forge.createPullRequest(pullRequest());
      await forge.mergePullRequest(first.number, { head });
      await push({ branch: "topic", files: { "c.txt": "c\n" } });
      const second = await forge.createPullRequest(pullRequest({ key: "run-2/pr/create" }));
      assert.notEqual(second.number, first.number);
      assert.equal((await forge.findPullRequest("topic"))?.number, second.number);
    },
  },
];

const FILES = { "b.txt": "b\n" };

const pullCases: readonly ForgeCase[] = [
  {
    name: "the default branch is the remote's, whatever its name",
    async run({ open, push, makeDefault }) {
      assert.equal(await (await open()).defaultBranch(), "main");
      await push({ branch: "trunk", from: "main", files: FILES });
      await makeDefault("trunk");
      assert.equal(await (await open()).defaultBranch(), "trunk");
    },
  },
  {
    name: "a pull request is read back as it was made, with the tip of its head",
    async run({ open, push }) {
      const forge = await open();
      const commit = await push({ branch: "topic", from: "main", files: FILES });
      const made = await forge.createPullRequest(pullRequest());
      assert.deepEqual(
        [made.title, made.state, made.draft, made.head, made.base, made.headCommit],
        [pullRequest().title, "open", false, "topic", "main", commit],
      );
      assert.ok(made.body.includes("Adds it."));
      assert.notEqual(made.url, "");
      const read = await (await open()).getPullRequest(made.number);
      assert.equal(read?.url, made.url);
      const next = await push({ branch: "topic", files: { "c.txt": "c\n" } });
      assert.equal((await forge.getPullRequest(made.number))?.headCommit, next);
      assert.equal(await forge.getPullRequest(made.number + 1000), null);
    },
  },
  {
    name: "it is found by the exact name of its head",
    async run({ open, push }) {
      const forge = await open();
      await push({ branch: "holdfast/issue-42", from: "main", files: FILES });
      assert.equal(await forge.findPullRequest("holdfast/issue-42"), null);
      const made = await forge.createPullRequest(pullRequest({ head: "holdfast/issue-42" }));
      assert.equal((await forge.findPullRequest("holdfast/issue-42"))?.number, made.number);
      assert.equal(await forge.findPullRequest("holdfast/issue-4"), null);
      assert.equal(await forge.findPullRequest("issue-42"), null);
    },
  },
  {
    name: "creating twice with one key creates once, also at the same moment",
    async run({ open, push }) {
      const [forge, other] = [await open(), await open()];
      await push({ branch: "topic", from: "main", files: FILES });
      const made = await Promise.all([
        forge.createPullRequest(pullRequest()),
        other.createPullRequest(pullRequest()),
        forge.createPullRequest(pullRequest()),
      ]);
      assert.equal(new Set(made.map(({ number }) => number)).size, 1);
    },
  },
  {
    name: "a second one for the same head is refused, and the error names the first",
    async run({ open, push }) {
      const forge = await open();
      await push({ branch: "topic", from: "main", files: FILES });
      const { number } = await forge.createPullRequest(pullRequest());
      const { data } = await rejectsWith("FORGE_REFUSED", () =>
        forge.createPullRequest(pullRequest({ key: "run-2/pr/x" })),
      );
      assert.deepEqual([data["why"], data["number"]], ["exists", number]);
    },
  },
  {
    name: "a head that was never pushed, a base that does not exist, and a head with nothing new are refused",
    async run({ open, push }) {
      const forge = await open();
      const why = async (change: Parameters<typeof pullRequest>[0]): Promise<unknown> =>
        (await rejectsWith("FORGE_REFUSED", () => forge.createPullRequest(pullRequest(change)))).data["why"];
      assert.equal(await why({ head: "never" }), "head_missing");
      await push({ branch: "topic", from: "main", files: FILES });
      assert.equal(await why({ base: "never" }), "base_missing");
      await push({ branch: "main", files: { "m.txt": "m\n" } });
      await push({ branch: "ahead", from: "main", files: { "n.txt": "n\n" } });
      assert.equal(await why({ head: "main", base: "ahead" }), "nothing_new");
      assert.equal(await forge.findPullRequest("topic"), null);
    },
  },
  {
    name: "title and body can be changed, and the key is still found",
    async run({ open, push }) {
      const forge = await open();
      await push({ branch: "topic", from: "main", files: FILES });
      const { number } = await forge.createPullRequest(pullRequest());
      await forge.updatePullRequest(number, { title: "Other title" });
      const changed = await forge.updatePullRequest(number, { body: "Other body" });
      assert.equal(changed.title, "Other title");
      assert.ok(changed.body.includes("Other body") && !changed.body.includes("Adds it."));
      assert.equal((await forge.createPullRequest(pullRequest())).number, number);
      await rejectsWith("FORGE_REFUSED", () => forge.updatePullRequest(number + 1000, { title: "x" }));
    },
  },
];

const reviewCases: readonly ForgeCase[] = [
  {
    name: "reviews come oldest first, each with its id, author, decision and text",
    async run({ open, push, writeReview }) {
      const forge = await open();
      const commit = await push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      const { number } = await forge.createPullRequest(pullRequest());
      assert.deepEqual(await forge.reviews(number), []);
      await writeReview(number, { author: "ada", state: "changes_requested", body: "Say it louder.", commit });
      const [first] = await forge.reviews(number);
      await writeReview(number, { author: "bob", state: "approved", body: "Fine.", commit });
      await writeReview(number, { author: "ada", state: "approved", body: "", commit });
      const all = await (await open()).reviews(number);
      assert.deepEqual(
        all.map(({ author, state, byPerson }) => [author, state, byPerson]),
        [
          ["ada", "changes_requested", true],
          ["bob", "approved", true],
          ["ada", "approved", true],
        ],
      );
      assert.equal(all[0]?.id, first?.id);
      assert.equal(new Set(all.map(({ id }) => id)).size, 3);
      assert.ok(all[0]?.body.includes("Say it louder."));
      for (const review of all) assert.ok(review.commit === null || review.commit === commit);
    },
  },
  {
    name: "the reviews of a pull request that does not exist are refused",
    async run({ open }) {
      await rejectsWith("FORGE_REFUSED", async () => (await open()).reviews(1000));
    },
  },
];

/** Every promise of the forge contract, one case each, on node:assert alone, for any test runner and any forge. */
export const forgeContract: readonly ForgeCase[] = [
  ...issueCases,
  ...pullCases,
  ...mergeCases,
  ...undoCases,
  ...checkCases,
  ...reviewCases,
];

/** One forge under test with its own repository, fresh for each case. Its default branch `main` has one commit with `a.txt`. */
export interface ForgeHarness {
  /** Another handle on the same forge, as another process would have. */
  open(): Promise<Forge>;
  /** Commits these files on top of a remote branch (or of `from`, for a new one) and pushes. Returns the commit. */
  push(params: PushParams): Promise<string>;
  /** Commit of a branch on the remote; null when it does not exist. */
  tip(branch: string): Promise<string | null>;
  isAncestor(ancestor: string, of: string): Promise<boolean>;
  /** Makes an existing branch the default, as the owner of the repository would. */
  makeDefault(branch: string): Promise<void>;
  /** Writes a comment on an issue as a user would. */
  writeComment(issue: number, comment: { readonly author: string; readonly body: string }): Promise<void>;
  /** Writes a review as a user would. */
  writeReview(pullRequest: number, review: WrittenReview): Promise<void>;
  /** Writes checks as a CI service would. */
  writeChecks(commit: string, runs: readonly Pick<CheckRun, "name" | "state" | "summary">[]): Promise<void>;
}

interface WrittenReview {
  readonly author: string;
  readonly state: "approved" | "changes_requested";
  readonly body: string;
  readonly commit: string;
}

interface PushParams {
  readonly branch: string;
  readonly from?: string;
  readonly files: Readonly<Record<string, string>>;
}

export interface ForgeCase {
  readonly name: string;
  run(harness: ForgeHarness): Promise<void>;
}

export function pullRequest(change: Partial<NewPullRequest> = {}): NewPullRequest {
  const title = "[feat][#1] Add a greeting";
  return { title, body: "Adds it.", head: "topic", base: "main", draft: false, key: "run-1/pr/create", ...change };
}

/** Polls until the forge has computed the mergeability. */
export async function settledPull(forge: Forge, number: number): Promise<PullRequest> {
  for (let attempt = 1; ; attempt++) {
    const pull = await forge.getPullRequest(number);
    assert.ok(pull !== null, `pull request ${number} is gone`);
    if (pull.mergeability !== "unknown" || pull.state !== "open" || attempt === 100) return pull;
    await setTimeout(50);
  }
}
