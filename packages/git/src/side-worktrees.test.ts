import { execFileSync } from "node:child_process";
import * as fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import type { PreviewSnapshot } from "@holdfast/core/workspace";
import { startCommitted } from "@holdfast/test-support/git/repository";
import { openGitWorkspaces } from "./workspaces.ts";

const PATHS = ["a.txt", "b.txt", "c.bin", "d/e.txt", "d/f.txt", "g/h/i.txt", "link", "z"];
/** Few contents, so that files look like renames of others. */
const CONTENTS = ["one\ntwo\nthree\nfour\n", "one\ntwo\nthree\n4\n", "\0bytes", "other\n", ""];

type Edit =
  | { readonly kind: "write"; readonly content: string; readonly mode: string }
  | { readonly kind: "delete" }
  | { readonly kind: "rename" };
type Files = ReadonlyMap<string, { readonly content: string; readonly mode: string }>;

const content = fc.constantFrom(...CONTENTS);
const edit: fc.Arbitrary<Edit> = fc.oneof(
  fc.record({ kind: fc.constant("write" as const), content, mode: fc.constantFrom("100644", "100755", "120000") }),
  fc.constant({ kind: "delete" as const }),
  fc.constant({ kind: "rename" as const }),
);
const scene = fc.record({
  base: fc.dictionary(fc.constantFrom(...PATHS), content),
  /** Each path is changed by one side worktree at most. */
  edits: fc.array(fc.record({ owner: fc.nat({ max: 3 }), edit }), { minLength: PATHS.length, maxLength: PATHS.length }),
});

function applied(files: Files, path: string, change: Edit): Files {
  const next = new Map(files);
  const was = next.get(path);
  if (change.kind === "write") next.set(path, change);
  else next.delete(path);
  if (change.kind === "rename" && was !== undefined) next.set(`${path}.moved`, was);
  return next;
}

test("side worktrees with their own edits, merged one after another, equal all edits applied one after another", async () => {
  const repo = startCommitted();
  const workspaces = await openGitWorkspaces(repo.root);
  onTestFinished(() => workspaces.close());
  const look = await (await workspaces.open(repo.root)).look({ at: "2026-01-02T03:04:05Z" });
  /** Creates all commits with one git process. */
  const commitsOf = (states: readonly Files[]): readonly string[] => {
    const stream = states.map((files, at) => {
      const blobs = [...files].map(([path, file]) => {
        const data = Buffer.from(file.content === "" && file.mode === "120000" ? "nowhere" : file.content);
        return `M ${file.mode} inline ${path}\ndata ${data.length}\n${data.toString("latin1")}\n`;
      });
      return `reset refs/test/${at}\ncommit refs/test/${at}\nmark :${at + 1}\ncommitter A <a@b> 0 +0000\ndata 0\ndeleteall\n${blobs.join("")}\n`;
    });
    execFileSync("git", ["fast-import", "--quiet", "--force"], {
      cwd: repo.root,
      input: Buffer.from(stream.join(""), "latin1"),
    });
    const names = states.map((_, at) => `refs/test/${at}`);
    return repo
      .git("rev-parse", ...names)
      .trim()
      .split("\n");
  };
  const treeOf = (commit: string): string => repo.git("rev-parse", `${commit}^{tree}`).trim();

  await fc.assert(
    fc.asyncProperty(scene, async ({ base, edits }) => {
      const start: Files = new Map(
        Object.entries(base).map(([path, text]) => [path, { content: text, mode: "100644" }]),
      );
      const owned = [0, 1, 2].map((owner) =>
        edits.flatMap((one, at) => (one.owner === owner ? [{ ...one, path: PATHS[at] ?? "" }] : [])),
      );
      const sideWorktree = owned.map((own) => own.reduce((files, one) => applied(files, one.path, one.edit), start));
      const all = owned.flat().reduce((files, one) => applied(files, one.path, one.edit), start);
      const [before = "", expected = "", ...theirs] = commitsOf([start, all, ...sideWorktree]);
      let ours: PreviewSnapshot = { ...look, tree: treeOf(before), snapshot: look.snapshot };
      for (const one of theirs) {
        const merged = await workspaces.sideWorktrees.merge({ base: before, ours, theirs: one });
        if (merged.kind === "conflict") expect.fail(merged.detail);
        ours = merged.to;
      }
      expect(ours.tree).toBe(treeOf(expected));
    }),
    { numRuns: 20 },
  );
});
