import type { FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import type { TestRepository } from "./workspace-repository.ts";

/** Mode and path of everything in a snapshot. */
export function listTree(repo: TestRepository, plane: FilesPlane): string[] {
  const lines = repo.git("-c", "core.quotePath=false", "ls-tree", "-r", plane.tree).trim().split("\n");
  return lines.filter((line) => line !== "").map((line) => line.replace(/^(\d+) \w+ \w+\t/, "$1 "));
}

export function contentOf(repo: TestRepository, plane: FilesPlane, path: string): string {
  return repo.git("show", `${plane.tree}:${path}`);
}
