import assert from "node:assert/strict";
import { pullRequest, type ForgeCase } from "./harness.ts";
import { refuses } from "../refuses.ts";

const ISSUE = { title: "Greet people", body: "Say hello.\n\n- politely", labels: ["bug", "good first issue"] };

export const issueCases: readonly ForgeCase[] = [
  {
    name: "an issue is read back as it was written; one that is not there is null",
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
    name: "issues created at once get numbers of their own",
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
    name: "labels are what was set last",
    async run({ open }) {
      const forge = await open();
      const { number } = await forge.createIssue({ ...ISSUE, key: "run-1/setup/issue" });
      await forge.setLabels(number, ["in progress"]);
      await forge.setLabels(number, ["in progress"]);
      assert.deepEqual((await forge.getIssue(number))?.labels, ["in progress"]);
      await forge.setLabels(number, []);
      assert.deepEqual((await forge.getIssue(number))?.labels, []);
      await refuses("FORGE_REFUSED", () => forge.setLabels(number + 1000, ["x"]));
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
      await refuses("FORGE_REFUSED", () => forge.setLabels(gone, ["x"]));
      await refuses("FORGE_REFUSED", () => forge.comment(gone, { body: "x", key: "run-1/done/note" }));
    },
  },
  {
    name: "a comment is made once a key, and found by it",
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
      await refuses("FORGE_REFUSED", () => forge.comment(number + 1000, { body: "x", key: "run-1/done/note" }));
    },
  },
];
