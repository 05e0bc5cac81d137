import assert from "node:assert/strict";
import { pullRequest, type ForgeCase } from "./harness.ts";
import { refuses } from "../refuses.ts";

const FILES = { "b.txt": "b\n" };

export const pullCases: readonly ForgeCase[] = [
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
    name: "a second one for the same head is refused, and says which is there",
    async run({ open, push }) {
      const forge = await open();
      await push({ branch: "topic", from: "main", files: FILES });
      const { number } = await forge.createPullRequest(pullRequest());
      const { data } = await refuses("FORGE_REFUSED", () =>
        forge.createPullRequest(pullRequest({ key: "run-2/pr/x" })),
      );
      assert.deepEqual([data["why"], data["number"]], ["exists", number]);
    },
  },
  {
    name: "a head that was never pushed, a base that is not there, and a head with nothing new are refused",
    async run({ open, push }) {
      const forge = await open();
      const why = async (change: Parameters<typeof pullRequest>[0]): Promise<unknown> =>
        (await refuses("FORGE_REFUSED", () => forge.createPullRequest(pullRequest(change)))).data["why"];
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
      await refuses("FORGE_REFUSED", () => forge.updatePullRequest(number + 1000, { title: "x" }));
    },
  },
];
