import type { Run } from "./run.ts";
import { canonicalJson } from "../values/index.ts";

/** Asking for the same run twice is one run; the time of asking is no part of what was asked. */
export function sameBirth(a: Omit<Run, "createdAt">, b: Omit<Run, "createdAt">): boolean {
  return asked(a) === asked(b);
}

function asked(run: Omit<Run, "createdAt">): string {
  const { id, workflow, work, forkedFrom, labels } = run;
  return canonicalJson({
    id,
    workflow,
    work,
    forkedFrom: forkedFrom === null ? null : { id: forkedFrom.id, digest: forkedFrom.digest },
    labels,
  });
}
