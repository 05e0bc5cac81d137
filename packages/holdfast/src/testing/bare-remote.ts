import { join } from "node:path";
import type { ForgeHarness } from "./forge-contract/harness.ts";
import { createTestRepository, testRepositoryAt, type TestRepository } from "./workspace/workspace-repository.ts";

/** A bare repository whose `main` has one commit with `a.txt`, and somebody who pushes to it: what every forge under test stands on. */
export interface BareRemote extends Pick<ForgeHarness, "push" | "tip" | "isAncestor" | "makeDefault"> {
  readonly bare: TestRepository;
  /** A folder that goes with it. */
  readonly folder: string;
  dispose(): void;
}

export function createBareRemote(): BareRemote {
  const work = createTestRepository();
  work.write("a.txt", "one\n");
  work.git("add", "-A");
  work.git("commit", "-qm", "first");
  const folder = join(work.root, "..");
  const root = join(folder, "bare.git");
  work.git("clone", "-q", "--bare", ".", root);
  work.git("remote", "add", "origin", root);
  const bare = testRepositoryAt(root);
  return {
    bare,
    folder,
    async push({ branch, from, files }) {
      work.git("fetch", "-q", "origin");
      work.git("checkout", "-q", "--detach", `origin/${from ?? branch}`);
      for (const [path, text] of Object.entries(files)) work.write(path, text);
      work.git("add", "-A");
      work.git("commit", "-qm", `${branch}: ${Object.keys(files).join(", ")}`);
      work.git("push", "-q", "origin", `HEAD:refs/heads/${branch}`);
      return work.git("rev-parse", "HEAD").trim();
    },
    tip: async (branch) => {
      const listed = bare.git("for-each-ref", "--format=%(objectname)", `refs/heads/${branch}`).trim();
      return listed === "" ? null : listed;
    },
    isAncestor: async (ancestor, of) => bare.git("merge-base", ancestor, of).trim() === ancestor,
    makeDefault: async (branch) => void bare.git("symbolic-ref", "HEAD", `refs/heads/${branch}`),
    dispose: () => work.dispose(),
  };
}
