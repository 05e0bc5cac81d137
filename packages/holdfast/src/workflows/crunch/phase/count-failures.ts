import type { WorkParts } from "../../../engine/work-parts.ts";

/** Earlier runs of the issue, of whichever workflow, that came to a bad end by themselves. One that somebody ended proves nothing. */
export async function countFailures(
  { store }: Pick<WorkParts, "store">,
  { run, issue }: { readonly run: string; readonly issue: number },
): Promise<number> {
  const runs = await store.listRuns();
  return runs.filter(
    ({ id, work, state }) =>
      id !== run &&
      work.kind === "issue" &&
      work.number === issue &&
      state.kind === "fatal" &&
      state.cause !== "aborted",
  ).length;
}
