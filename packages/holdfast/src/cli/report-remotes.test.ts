import { join } from "node:path";
import { createGitBranches } from "@holdfast/git/branches";
import { startSilentRemote } from "@holdfast/test-support/git/http-remote";
import { startCommitted } from "@holdfast/test-support/git/repository";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { expect, onTestFinished, test, vi } from "vitest";
import { openHoldfast } from "../open.ts";
import { findFiles } from "./commands/take.ts";
import { reportDatabase, reportFetches, reportWaits } from "./report-remotes.ts";

const PAGE = { width: 80, color: false, terminal: true, now: 0, offset: () => 0, program: "holdfast" };

function useFakeTimers(): void {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
}

const LATE: unknown = expect.stringContaining("no answer in time");

test("a fork and `take` report that they fetch files, and wait 30 seconds for a remote that never answers", async () => {
  const [there, here] = [startCommitted({ "work.txt": "done\n" }), startCommitted()];
  const store = join(scratchDirectory(onTestFinished), "store");
  await using first = await openHoldfast({ cwd: there.root, store });
  await (await first.createRun({ id: "r-1", workspace: "here" })).save();
  const { url, asked } = await startSilentRemote(onTestFinished);
  await using second = await openHoldfast({ cwd: here.root, store, filesRemote: url });
  const notices: string[] = [];
  reportFetches(second.files, (text) => void notices.push(text));
  const run = await second.run("r-1");
  useFakeTimers();
  // Both share one fetch.
  const forked = run.fork({ sequence: 1 }).catch((error: unknown) => error);
  const found = findFiles(second, { id: "r-1", dryRun: false });
  await asked(1);
  vi.advanceTimersByTime(30_000);
  expect(await forked).toMatchObject({ code: "TREE_MISSING", message: LATE });
  expect(await found).toEqual({ missing: [1], here: null, remote: url, problem: LATE });
  expect(notices).toEqual([`Fetching the files of r-1 from ${url} …`]);
  expect(await findFiles(first, { id: "r-1", dryRun: false })).toMatchObject({ missing: [], here: "r-1@1" });
});

test("a slow remote of the branches is reported once, and is not waited for longer than 30 seconds", async () => {
  const repository = startCommitted();
  const { url, asked } = await startSilentRemote(onTestFinished);
  repository.git("remote", "add", "origin", url);
  const notices: string[] = [];
  const branches = reportWaits(createGitBranches(), (text) => void notices.push(text));
  const branch = await branches.asking(repository.root);
  useFakeTimers();
  const answers = Promise.all([branch.lookUpRemote("main"), branch.fetch()]);
  await asked(2);
  expect(notices).toEqual([]);
  vi.advanceTimersByTime(30_000);
  expect(await answers).toMatchObject([
    { kind: "unknown", reason: LATE, isTemporary: true },
    { kind: "failed", refusal: { cause: "network" } },
  ]);
  expect(notices).toEqual(["Waiting for the git remote …"]);
});

test("a database that does not answer is named, with the time until which the command waits", () => {
  const notices: string[] = [];
  const report = reportDatabase({ notify: (text) => void notices.push(text), talk: { ...PAGE, offset: () => 60 } });
  report({ location: "postgres://holdfast@db:5432/team?schema=holdfast", until: Date.parse("2026-03-01T09:02:03Z") });
  expect(notices).toEqual([
    "No answer from postgres://holdfast@db:5432/team?schema=holdfast. Waiting until 2026-03-01 10:02:03 +01:00 …",
  ]);
});
