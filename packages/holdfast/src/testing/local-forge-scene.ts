import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../ports/clock.ts";
import { openLocalForge, type LocalForgeOptions } from "../forges/local/local-forge.ts";
import type { Forge } from "../ports/forge.ts";
import type { ForgeHarness } from "./forge-contract/harness.ts";
import { createTestRepository, testRepositoryAt, type TestRepository } from "./workspace-repository.ts";

/** A local forge on a bare repository in a temporary folder. */
export interface LocalForgeScene extends ForgeHarness {
  readonly bare: TestRepository;
  /** The forge's own folder. */
  readonly directory: string;
  forge(options?: Partial<LocalForgeOptions>): Forge;
  write(path: string, text: string): void;
  dispose(): void;
}

export function createLocalForgeScene(clock?: Clock): LocalForgeScene {
  const work = createTestRepository();
  work.write("a.txt", "one\n");
  work.git("add", "-A");
  work.git("commit", "-qm", "first");
  const root = join(work.root, "..", "bare.git");
  work.git("clone", "-q", "--bare", ".", root);
  work.git("remote", "add", "origin", root);
  const bare = testRepositoryAt(root);
  const directory = join(root, "holdfast-forge");
  const write = (path: string, text: string): void => {
    mkdirSync(join(directory, path, ".."), { recursive: true });
    writeFileSync(join(directory, path), text);
  };
  const forge = (options = {}): Forge =>
    openLocalForge({ repository: root, ...(clock === undefined ? {} : { clock }), ...options });
  return {
    bare,
    directory,
    forge,
    write,
    open: async () => forge(),
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
    writeChecks: async (commit, runs) => write(`checks/${commit}.json`, JSON.stringify({ runs })),
    dispose: () => work.dispose(),
  };
}
