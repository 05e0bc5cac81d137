import { HoldfastError } from "../../core/error.ts";
import type { Repository } from "../repository.ts";

export async function treeOfCommit(repository: Repository, commit: string): Promise<string> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${commit}^{tree}`];
  const found = await repository.objects.result({ args });
  if (found.code !== 0) throw missingCommit(commit);
  return found.stdout.toString("utf8").trim();
}

export function missingCommit(commit: string): HoldfastError {
  return new HoldfastError({
    code: "TREE_MISSING",
    message: `Commit ${commit} of an aside is not in this repository`,
    hint: "Fetch refs/holdfast/* from where it was made, or go back to a checkpoint before the aside.",
    data: { commit },
  });
}
