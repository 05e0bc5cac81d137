import { afterEach, beforeEach, expect, test } from "vitest";
import { createTestRepository, readWorktree, type TestRepository } from "../testing/workspace/workspace-repository.ts";
import { openWorkspaceSession } from "../testing/workspace/workspace-session.ts";
import { openGitWorkspaces } from "./git-workspaces.ts";

let repo: TestRepository;
beforeEach(() => {
  repo = createTestRepository();
});
afterEach(() => repo.dispose());

/** Snapshots a state in which git would convert, scrambles it, restores, and compares every byte. */
async function roundTrip(files: Readonly<Record<string, string | Uint8Array>>): Promise<void> {
  for (const [name, content] of Object.entries(files)) repo.write(name, content);
  repo.git("add", "-A");
  repo.git("commit", "-qm", "first");
  // The user's index now says "clean" of files whose stored form is not what lies on disk.
  repo.git("status");
  const { snapshot, restore } = await openWorkspaceSession({ repository: repo, open: openGitWorkspaces });
  const recorded = readWorktree(repo.root);
  const plane = await snapshot();
  for (const name of Object.keys(files)) if (name !== ".gitattributes") repo.write(name, "scrambled\n");
  const { tree } = await restore(plane);
  expect(tree).toBe(plane.tree);
  expect(readWorktree(repo.root)).toEqual(recorded);
}

test("text=auto with CRLF, LF and mixed line ends", async () => {
  await roundTrip({ ".gitattributes": "* text=auto\n", crlf: "a\r\nb\r\n", lf: "a\nb\n", mixed: "a\r\nb\n" });
});

test("autocrlf and eol=crlf", async () => {
  repo.git("config", "core.autocrlf", "true");
  repo.git("config", "core.safecrlf", "false");
  await roundTrip({
    ".gitattributes": "*.c eol=crlf\n",
    crlf: "a\r\nb\r\n",
    lf: "a\nb\n",
    "x.c": "a\r\n",
    "y.c": "a\n",
  });
});

test("ident and working-tree-encoding", async () => {
  const utf16 = Buffer.from("\uFEFFhello\r\n", "utf16le");
  await roundTrip({
    ".gitattributes": "*.id ident\n*.u16 text working-tree-encoding=UTF-16LE-BOM\n",
    "a.id": "$Id: 0123456789012345678901234567890123456789 $\n",
    "b.id": "$Id$\n",
    "c.u16": utf16,
  });
});

test("LFS-like filters: real content and bare pointers", async () => {
  repo.git("config", "filter.lfs.clean", "sed s/.*/pointer/");
  repo.git("config", "filter.lfs.smudge", "cat");
  repo.git("config", "filter.lfs.required", "true");
  const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${"0".repeat(64)}\nsize 12345\n`;
  await roundTrip({ ".gitattributes": "*.bin filter=lfs -text\n", "a.bin": "big binary", "b.bin": pointer });
});

test("a filter that keeps the size, so that no stat could tell", async () => {
  repo.git("config", "filter.hide.clean", "sed s/secret/XXXXXX/");
  repo.git("config", "filter.hide.smudge", "cat");
  await roundTrip({ ".gitattributes": "conf filter=hide\n", conf: "password=secret\n" });
  expect(repo.git("show", "HEAD:conf")).toBe("password=XXXXXX\n");
});

test("a file with a filter that is configured nowhere", async () => {
  await roundTrip({ ".gitattributes": "* filter=nowhere\n", a: "1\r\n" });
});
