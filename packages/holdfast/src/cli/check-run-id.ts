import { HoldfastError } from "../core/error.ts";
import { RUN_ID } from "../core/run/run.ts";

/** For flags that may name a run which is not there yet. Says what the id could be instead. */
export function checkNewRunId(id: string | undefined): void {
  if (id === undefined || RUN_ID.test(id)) return;
  const near = id
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 63)
    .replace(/^-+|-+$/g, "");
  throw new HoldfastError({
    code: "USAGE",
    message: `"${id}" cannot be a run id`,
    hint: `Use 1 to 63 lower-case letters, digits and inner hyphens, such as ${RUN_ID.test(near) ? near : "issue-42"}.`,
  });
}
