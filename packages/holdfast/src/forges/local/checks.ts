import * as z from "zod/mini";
import { HoldfastError } from "../../core/error.ts";
import type { CheckRun, Checks } from "../../ports/forge.ts";
import { checksOf } from "../checks-state.ts";
import { gitFailed } from "./bare-git.ts";
import { applyChange } from "./change.ts";
import { awaitCi, clearCi, startCi, type CiState } from "./ci.ts";
import { readForgeFile } from "./forge-file.ts";
import { withForgeLock } from "./forge-lock.ts";
import type { ForgePlace } from "./forge-place.ts";
import { parseJson } from "./parse-json.ts";
import { readForgeSettings } from "./settings.ts";

/** What was written down for the commit, by anyone; else the configured command is run for it, once. */
export async function readChecks(place: ForgePlace, commit: string, waitMs: number): Promise<Checks> {
  requireCommitId(commit);
  const written = readWritten(place, commit);
  if (written !== undefined) return checksOf(written);
  const { ci, ciTimeoutMinutes } = readForgeSettings(place);
  if (ci === undefined || !(await hasCommit(place, commit))) return checksOf([]);
  const timeoutMs = (ciTimeoutMinutes ?? DEFAULT_TIMEOUT_MINUTES) * 60_000;
  await withForgeLock(place, async () => {
    if (readWritten(place, commit) === undefined) startCi(place, { commit, command: ci, timeoutMs });
  });
  const state = await awaitCi(place, { commit, waitMs, timeoutMs });
  if (state?.kind === "ended") return withForgeLock(place, async () => record(place, commit, state));
  return checksOf(readWritten(place, commit) ?? [runOf("pending", "")]);
}

const DEFAULT_TIMEOUT_MINUTES = 60;

const RUN = z.object({
  name: z.string().check(z.minLength(1)),
  state: z.enum(["pending", "passed", "failed", "skipped"]),
  url: z._default(z.nullable(z.string()), null),
  summary: z._default(z.string(), ""),
});
const WRITTEN = z.object({ runs: z.array(RUN) });

function readWritten(place: ForgePlace, commit: string): readonly CheckRun[] | undefined {
  const path = pathOf(commit);
  const file = readForgeFile(place, path);
  return file === undefined ? undefined : parseJson({ place, path, text: file.text, schema: WRITTEN }).runs;
}

function record(place: ForgePlace, commit: string, state: Extract<CiState, { readonly kind: "ended" }>): Checks {
  const written = readWritten(place, commit);
  const runs = written ?? [runOf(state.code === 0 ? "passed" : "failed", state.output)];
  if (written === undefined) {
    const text = `${JSON.stringify({ runs }, null, 2)}\n`;
    applyChange(place, {
      path: pathOf(commit),
      text,
      mode: "replace",
      what: "checks_recorded",
      number: null,
      key: commit,
    });
  }
  clearCi(place, commit);
  return checksOf(runs);
}

function runOf(state: CheckRun["state"], summary: string): CheckRun {
  return { name: "ci", state, url: null, summary };
}

async function hasCommit(place: ForgePlace, commit: string): Promise<boolean> {
  const args = ["cat-file", "-e", `${commit}^{commit}`];
  const found = await place.git.result(args);
  if (found.kind === "exited" && (found.code === 0 || found.stderr.includes("Not a valid object name")))
    return found.code === 0;
  throw gitFailed(place.gitDir, args, found);
}

function requireCommitId(commit: string): void {
  if (/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(commit)) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(commit)} is not a commit id`,
    hint: "Give the whole id, as `git rev-parse` prints it.",
  });
}

function pathOf(commit: string): string {
  return `checks/${commit}.json`;
}
