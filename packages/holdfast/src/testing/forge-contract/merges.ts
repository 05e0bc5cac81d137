import assert from "node:assert/strict";
import { pullRequest, settledPull, type ForgeCase } from "./harness.ts";
import { refuses } from "../refuses.ts";

export const mergeCases: readonly ForgeCase[] = [
  {
    name: "mergeability is told from the branches: mergeable, behind or mergeable when the base moved, conflicting",
    async run({ open, push }) {
      const forge = await open();
      await push({ branch: "topic", from: "main", files: { "a.txt": "topic\n" } });
      const { number } = await forge.createPullRequest(pullRequest());
      assert.equal((await settledPull(forge, number)).mergeability, "mergeable");
      await push({ branch: "main", files: { "m.txt": "m\n" } });
      // A forge may take a clean merge onto a base that moved, or want the branch brought up first.
      assert.ok(["mergeable", "behind"].includes((await settledPull(forge, number)).mergeability));
      await push({ branch: "main", files: { "a.txt": "main\n" } });
      assert.equal((await settledPull(forge, number)).mergeability, "conflicting");
    },
  },
  {
    name: "a merge brings the head into the base; again is the same; the issue that it closes is closed",
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
      await refuses("FORGE_REFUSED", () => forge.mergePullRequest(number, { head }));
      assert.equal(await tip("main"), before);
      const main = await push({ branch: "main", files: { "a.txt": "main\n" } });
      await refuses("FORGE_REFUSED", () => forge.mergePullRequest(number, { head: next }));
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
