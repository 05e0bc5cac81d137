import type { IssueSnapshot } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import type { Forge } from "../../ports/forge.ts";

/** The issue that an imported run is about, as it is now, and the forge it is at. */
export async function importedIssue(
  { forge }: Pick<WorkParts, "forge">,
  number: number,
): Promise<{ readonly forge: Forge; readonly issue: IssueSnapshot }> {
  if (forge === null)
    throw new HoldfastError({
      code: "FORGE_FAILED",
      message: "There is no forge to take the issue from and open a pull request at",
      hint: "Add a remote, or configure `forge:` in holdfast.config.yaml; then resume again.",
    });
  const issue = await forge.getIssue(number);
  if (issue !== null && issue.number === number) return { forge, issue };
  throw new HoldfastError({
    code: "USAGE",
    message: `There is no issue ${number} at ${forge.location}, which the imported run is about`,
    hint: "Resume it in a clone of the repository that it came from.",
  });
}
