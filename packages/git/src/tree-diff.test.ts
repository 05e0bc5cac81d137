import { symlinkSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  type TestRepository,
  type WorkspaceSession,
  createTestRepository,
  openWorkspaceSession,
} from "@holdfast/test-support/git/repository";
import { openGitWorkspaces } from "./workspaces.ts";

let repo: TestRepository;
let session: WorkspaceSession;
beforeEach(async () => {
  repo = createTestRepository();
  for (const name of ["edited", "gone", "turned", "dir/inner"]) repo.write(name, `${name}\n`);
  repo.write("old-name", "a file\nof several lines\nthat is renamed\n");
  repo.git("add", "-A");
  repo.git("commit", "-qm", "first");
  session = await openWorkspaceSession({ repository: repo, open: openGitWorkspaces });
});
afterEach(() => repo.dispose());

test("files, patch, stat and names of two snapshots", async () => {
  const from = await session.snapshot();
  repo.write("edited", "edited twice\n");
  repo.write("dir/ü\n", "new\n");
  repo.remove("gone");
  repo.remove("turned");
  symlinkSync("edited", repo.path("turned"));
  repo.write("new-name", repo.read("old-name"));
  repo.remove("old-name");
  const to = await session.snapshot();
  const { workspaces, guard } = session;
  const patch = await guard(() => workspaces.diff({ from: from.tree, to: to.snapshot, format: "patch" }));
  expect(patch.files).toEqual([
    { path: '"dir/\\303\\274\\n"', status: "added", from: null },
    { path: "edited", status: "modified", from: null },
    { path: "gone", status: "deleted", from: null },
    { path: "new-name", status: "renamed", from: "old-name" },
    { path: "turned", status: "type_changed", from: null },
  ]);
  expect(patch.text).toContain("-edited\n+edited twice\n");
  expect(patch.text).not.toContain("\u001b[");
  const stat = await workspaces.diff({ from: from.tree, to: to.tree, format: "stat", color: true });
  expect(stat.text).toContain("5 files changed");
  expect(stat.text).toContain("\u001b[");
  const names = await workspaces.diff({ from: from.ref, to: to.ref, format: "names" });
  expect(names.text).toContain("M\tedited\n");
  const counts = await workspaces.diff({ from: from.ref, to: to.ref, format: "counts" });
  expect(counts.text.split("\n").map((line) => line.split("\t").slice(0, 2).join("+"))).toEqual([
    "1+0",
    "1+1",
    "0+1",
    "0+0",
    "1+1",
    "",
  ]);
  expect(await guard(() => workspaces.filesOf(to.snapshot))).toEqual([
    "dir/inner",
    '"dir/\\303\\274\\n"',
    "edited",
    "new-name",
    "turned",
  ]);
});

test("only the requested paths, of any bytes", async () => {
  const from = await session.snapshot();
  repo.write("edited", "2\n");
  repo.write("dir/inner", "2\n");
  repo.write("dir/\u0001", "2\n");
  repo.write("*", "2\n");
  const to = await session.snapshot();
  const diff = await session.guard(() =>
    session.workspaces.diff({ from: from.tree, to: to.tree, paths: ['"dir/\\001"', "edited"], format: "names" }),
  );
  expect(diff.files.map(({ path }) => path)).toEqual(['"dir/\\001"', "edited"]);
  const star = { from: from.tree, to: to.tree, paths: ["*"], format: "names" } as const;
  expect((await session.workspaces.diff(star)).files.map(({ path }) => path)).toEqual(["*"]);
  const none = await session.workspaces.diff({ from: from.tree, to: to.tree, paths: ["gone"], format: "patch" });
  expect(none).toEqual({ text: "", files: [] });
});

test("an id that is not a tree is a missing tree, and never an option", async () => {
  const { tree } = await session.snapshot();
  for (const from of ["1".repeat(40), "nope", "--output=/tmp/x", "HEAD:edited"]) {
    const attempt = session.workspaces.diff({ from, to: tree, format: "patch" });
    await expect(attempt, from).rejects.toMatchObject({ code: "TREE_MISSING" });
  }
});
