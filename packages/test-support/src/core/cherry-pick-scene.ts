// Two runs for tests of cherry-picking files from one run into another.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import type { CherryPickPlan, CherryPickReport } from "@holdfast/core/cherry-pick";
import type { RunHandle } from "@holdfast/core/run-handle";
import type { Holdfast } from "../../../holdfast/src/holdfast.ts";
import { openHoldfast } from "../../../holdfast/src/open.ts";
import { type TestRepository, readWorktree, startCommitted } from "../git/repository.ts";

/** Two runs in their own worktrees: `ours`, and `theirs`, whose files are cherry-picked. */
export interface CherryPickScene {
  readonly repo: TestRepository;
  readonly holdfast: Holdfast;
  readonly ours: Side;
  readonly theirs: Side;
  plan(...paths: readonly string[]): Promise<CherryPickPlan>;
  cherryPick(paths: readonly string[], options?: { readonly force?: boolean }): Promise<CherryPickReport>;
}

interface Side {
  readonly handle: RunHandle;
  readonly root: string;
  write(path: string, content: string): void;
  /** Every file with its kind and content. */
  files(): Readonly<Record<string, string>>;
}

export async function createCherryPickRuns(files: Readonly<Record<string, string>>): Promise<CherryPickScene> {
  const repo = startCommitted(files);
  const holdfast = await openHoldfast({ cwd: repo.root, worktrees: join(repo.root, "../trees") });
  onTestFinished(() => holdfast.close());
  const begin = async (id: string): Promise<Side> => {
    const handle = await holdfast.createRun({ id, workspace: "new" });
    onTestFinished(() => handle.close());
    await handle.save({ values: { of: id } });
    const root = (await handle.workspace())?.root ?? "";
    return {
      handle,
      root,
      write(path, content) {
        mkdirSync(dirname(join(root, path)), { recursive: true });
        writeFileSync(join(root, path), content);
      },
      files: () => readWorktree(root),
    };
  };
  const [ours, theirs] = [await begin("ours"), await begin("theirs")];
  const plan = async (...paths: readonly string[]): Promise<CherryPickPlan> => {
    const source = await theirs.handle.latest();
    if (source === undefined) throw new Error("nothing was saved");
    return await ours.handle.planCherryPick({ source, paths });
  };
  return {
    repo,
    holdfast,
    ours,
    theirs,
    plan,
    cherryPick: async (paths, options) => await ours.handle.applyCherryPick(await plan(...paths), options),
  };
}
