import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../ports/clock.ts";
import { openLocalForge, type LocalForgeOptions } from "../../forges/local/local-forge.ts";
import type { Forge } from "../../ports/forge.ts";
import { createBareRemote } from "../bare-remote.ts";
import type { ForgeHarness } from "../forge-contract/harness.ts";
import type { TestRepository } from "../workspace/workspace-repository.ts";

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
  const remote = createBareRemote();
  const { root } = remote.bare;
  const directory = join(root, "holdfast-forge");
  const write = (path: string, text: string): void => {
    mkdirSync(join(directory, path, ".."), { recursive: true });
    writeFileSync(join(directory, path), text);
  };
  const forge = (options = {}): Forge =>
    openLocalForge({ repository: root, ...(clock === undefined ? {} : { clock }), ...options });
  return {
    ...remote,
    directory,
    forge,
    write,
    open: async () => forge(),
    async writeReview(number, review) {
      const path = `pulls/${number}.reviews.json`;
      const before: unknown = existsSync(join(directory, path))
        ? JSON.parse(readFileSync(join(directory, path), "utf8"))
        : [];
      write(path, JSON.stringify([...(Array.isArray(before) ? before : []), review]));
    },
    writeChecks: async (commit, runs) => write(`checks/${commit}.json`, JSON.stringify({ runs })),
  };
}
