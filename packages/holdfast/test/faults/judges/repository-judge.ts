import { execFileSync } from "node:child_process";
import { join } from "node:path";
import type { Checkpoint, Planes } from "@holdfast/core/checkpoint";
import { writerCommand } from "../harness/writer.ts";
import type { PrintedLine } from "../writers/printed.ts";
import { judgeFiles } from "./judge-files.ts";
import { type StoreJudgement, judgeStore } from "./judge-store.ts";
import { openStore } from "./open-store.ts";

export function repositoryIn(root: string): string {
  return join(root, "repository");
}

/** Runs a writer in the repository before the tested part begins; returns its output. */
export async function livePast(writer: string, root: string): Promise<readonly string[]> {
  const [file = "", ...args] = await writerCommand(writer, repositoryIn(root), "past");
  const printed = execFileSync(file, args, { encoding: "utf8" });
  return printed.split("\n").filter((line) => line !== "");
}

/** The store of the repository, and the git objects of every checkpoint in it. */
export async function judgeRepository(
  root: string,
  params: {
    readonly printed: readonly PrintedLine[];
    readonly expected?: (checkpoint: Checkpoint) => Planes;
    /** Which of the worktrees a checkpoint must hold; default that of its sequence. */
    readonly contentOf?: (checkpoint: Checkpoint) => number;
  },
): Promise<StoreJudgement> {
  const repository = repositoryIn(root);
  const directory = join(repository, ".git", "holdfast");
  const { problems, found } = await judgeStore({ ...params, open: () => openStore(directory), directory });
  return { problems: [...problems, ...judgeFiles(repository, found, params)], found };
}
