import * as z from "zod/mini";
import type { CheckRun } from "../../ports/forge.ts";

export const CHECK_RUN = z.object({
  id: z.number(),
  name: z.string(),
  status: z.string(),
  conclusion: z.nullish(z.string()),
  html_url: z.nullish(z.string()),
  details_url: z.nullish(z.string()),
  output: z.nullish(
    z.object({ title: z.nullish(z.string()), summary: z.nullish(z.string()), text: z.nullish(z.string()) }),
  ),
  app: z.nullish(z.object({ slug: z.nullish(z.string()) })),
});

export const STATUS = z.object({
  context: z.string(),
  state: z.string(),
  description: z.nullish(z.string()),
  target_url: z.nullish(z.string()),
});

/** `log`: the end of the job's output, where there is one. */
export function viewCheckRun(run: z.infer<typeof CHECK_RUN>, log: string | null): CheckRun {
  const { title, summary, text } = run.output ?? {};
  const said = [title, summary, text, log].filter((part) => part !== null && part !== undefined && part !== "");
  return {
    name: run.name,
    state: stateOfRun(run),
    url: run.html_url ?? run.details_url ?? null,
    summary: said.join("\n\n").slice(-LONGEST_SUMMARY),
  };
}

export function viewStatus({ context, state, description, target_url }: z.infer<typeof STATUS>): CheckRun {
  return { name: context, state: stateOfStatus(state), url: target_url ?? null, summary: description ?? "" };
}

/** A conclusion that is not known is no success: somebody has to look. */
export function stateOfRun(run: {
  readonly status: string;
  readonly conclusion?: string | null | undefined;
}): CheckRun["state"] {
  if (run.status !== "completed") return "pending";
  switch (run.conclusion) {
    case "success":
      return "passed";
    case "neutral":
    case "skipped":
      return "skipped";
    // Given up by GitHub for want of news: it says nothing of the commit, and may be run again.
    case "stale":
      return "pending";
    default:
      return "failed";
  }
}

function stateOfStatus(state: string): CheckRun["state"] {
  if (state === "success") return "passed";
  return state === "pending" ? "pending" : "failed";
}

const LONGEST_SUMMARY = 8000;
