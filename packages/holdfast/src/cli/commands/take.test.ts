import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { startCommitted } from "@holdfast/test-support/git/repository";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { expect, onTestFinished, test } from "vitest";
import { openHoldfast } from "../../open.ts";
import { filesText, findFiles, nextText } from "./take.ts";

test("a dry run says that `take` fetches missing files, and only a fetch that failed asks for a push", () => {
  const files = { missing: [4, 3], here: "issue-1@2", remote: "git@host:shop.git", problem: null };
  const plan = { files, saved: "issue-1@4", orphan: "issue-1-orphan-1" };
  expect(nextText("issue-1", plan, true)).toBe(
    "`holdfast take issue-1` fetches missing files from git@host:shop.git first.",
  );
  const push = expect.stringContaining("`holdfast store push issue-1` there") as string;
  expect(nextText("issue-1", plan)).toEqual(push);
  expect(nextText("issue-1", { ...plan, files: { ...files, remote: null } }, true)).toEqual(push);
});

test("the plan says in sentences which files are here", () => {
  const files = { missing: [3, 2], here: "issue-8@1", remote: null, problem: null };
  expect([
    filesText({ ...files, missing: [] }),
    filesText(files),
    filesText({ ...files, missing: [2], remote: "origin" }),
    filesText({ ...files, missing: [3, 2, 1], here: null, problem: "network: no answer in time" }),
  ]).toEqual([
    "The files of issue-8@1 are here.",
    "The files of issue-8@1 are here. Those of 2 newer checkpoints are not (files.remote is not set).",
    "The files of issue-8@1 are here. Those of 1 newer checkpoint are not (origin did not have them when asked).",
    "The files of 3 checkpoints are not here (network: no answer in time).",
  ]);
});

/** Accepts connections, and sends nothing. */
async function startSilentServer(): Promise<string> {
  const server = createServer((socket) => void socket.on("error", () => undefined).resume()).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/shop.git`;
}

test("a remote that never answers is waited for until the limit, and the plan names the missing files", async () => {
  const [there, here] = [startCommitted({ "work.txt": "done\n" }), startCommitted()];
  const store = join(scratchDirectory(onTestFinished), "store");
  await using first = await openHoldfast({ cwd: there.root, store });
  const run = await first.createRun({ id: "r-1", workspace: "here" });
  await run.save();
  const remote = await startSilentServer();
  await using second = await openHoldfast({ cwd: here.root, store, filesRemote: remote });
  const notices: string[] = [];
  const shell = { notify: (text: string) => void notices.push(text) };
  const params = { id: "r-1", dryRun: false, waitMs: 1 };
  expect(await findFiles(shell, second, params)).toEqual({
    missing: [1],
    here: null,
    remote,
    problem: expect.stringContaining("network: no answer in time") as string,
  });
  expect(notices).toEqual([`Fetching the files of r-1 from ${remote} …`]);
  expect(await findFiles(shell, first, params)).toMatchObject({ missing: [], here: "r-1@1" });
  expect(notices).toHaveLength(1);
});
