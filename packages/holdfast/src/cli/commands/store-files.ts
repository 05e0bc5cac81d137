/** The commands `store push` and `store fetch`: send the files of runs to the remote of `files.remote`, or fetch them, by hand. */
import { usageError } from "@holdfast/platform/error";
import type { RunFiles } from "../../run-files.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun } from "../operands.ts";
import { countText } from "../output/quantities.ts";
import { escapeText } from "../output/text.ts";

const RUNS = {
  name: "RUN",
  about: "only these runs; default: all",
  required: false,
  completes: "run",
  many: true,
} as const;
const JSON_TEXT = (done: string): string =>
  `{"remote", "runs": [{"run", "result": "${done}", "same", "absent", "refused" or "secrets", "snapshots", "why": text or null}]}.`;

const pushSpec = {
  name: "store push",
  summary: "send the files of runs to the remote of files.remote",
  details: [
    "Runs send their files by themselves after each checkpoint. Use this command to try again after the remote was away, or for runs from before `files.remote` was set. Only what the remote lacks is sent.",
    "Files with a possible secret are not sent, and the exit status is 4. The output names file, line and kind. If it is no secret, or if those who can read the remote may know it, add --with-secrets. docs/files.md has the details.",
  ],
  operands: [RUNS],
  consent: "saves",
  flags: { "with-secrets": { type: "boolean", about: "also send files in which a possible secret was found" } },
  examples: [
    { line: "holdfast store push", about: "send what the remote lacks, of all runs" },
    { line: "holdfast store push issue-42", about: "send the files of one run" },
    { line: "holdfast store push issue-42 --with-secrets", about: "what was found in them is no secret" },
  ],
  json: JSON_TEXT("pushed"),
} as const satisfies CommandSpec;

const fetchSpec = {
  name: "store fetch",
  summary: "fetch the files of runs from the remote of files.remote",
  details: [
    "`resume`, `restore` and `fork` fetch what is missing by themselves. `show`, `diff` and `compare` write nothing, so they need this command first on a machine that has not worked on the run.",
    "Every object is checked before it is used. No worktree and no branch changes. docs/files.md has the details.",
  ],
  operands: [RUNS],
  consent: "saves",
  flags: {},
  examples: [
    { line: "holdfast store fetch issue-42", about: "fetch the files of one run" },
    { line: "holdfast store fetch", about: "fetch those of all runs" },
    { line: "holdfast store fetch issue-42 --json | jq -r '.runs[].result'", about: "for a script" },
  ],
  json: JSON_TEXT("fetched"),
} as const satisfies CommandSpec;

export const push = {
  spec: pushSpec,
  run: (shell: Shell, input: Input<(typeof pushSpec)["flags"]>): Promise<Exit> => {
    const withSecrets = input.on("with-secrets");
    return eachRun(shell, input.operands, "Sending", async (files, run) => {
      const pushed = await files.push(run, { withSecrets, signal: shell.signal });
      if (pushed.kind !== "secrets") return pushed;
      const places = pushed.found.slice(0, SHOWN).map(({ path, line, kind }) => `${path}:${line} (${kind})`);
      const more = pushed.found.length > SHOWN ? ` and ${pushed.found.length - SHOWN} more` : "";
      return { kind: pushed.kind, why: `possible secrets: ${places.join(", ")}${more}` };
    });
  },
};

export const fetch = {
  spec: fetchSpec,
  run: (shell: Shell, input: Input<(typeof fetchSpec)["flags"]>): Promise<Exit> =>
    eachRun(shell, input.operands, "Fetching", (files, run) => files.fetch(run, { signal: shell.signal })),
};

const SHOWN = 5;

type Result =
  | { readonly kind: "pushed" | "fetched"; readonly snapshots: number }
  | { readonly kind: "same" | "absent" }
  | { readonly kind: "secrets"; readonly why: string }
  | { readonly kind: "refused"; readonly refusal: { readonly cause: string; readonly message: string } };

interface Row {
  readonly run: string;
  readonly result: Result["kind"];
  readonly snapshots: number;
  readonly why: string | null;
}

async function eachRun(
  shell: Shell,
  named: readonly string[],
  doing: "Sending" | "Fetching",
  act: (files: RunFiles, run: string) => Promise<Result>,
): Promise<Exit> {
  const holdfast = await shell.open({ create: false });
  const { files } = holdfast;
  if (files === null)
    throw usageError(
      "No remote gets the files of runs here",
      "Set `files: { remote: origin }` in holdfast.config.yaml, or name another remote; see docs/files.md.",
    );
  const runs: string[] = [];
  for (const name of named) runs.push((await findRun(holdfast, name)).id);
  if (named.length === 0) runs.push(...(await holdfast.listRuns()).map(({ id }) => id));
  const rows: Row[] = [];
  const preposition = doing === "Sending" ? "to" : "from";
  for (const [at, run] of runs.entries()) {
    shell.signal.throwIfAborted();
    // Data of any size may take long, and so does a remote that does not answer.
    shell.notify(`${doing} ${at + 1} of ${runs.length}: ${run} ${preposition} ${escapeText(files.url)} …`);
    rows.push(rowOf(run, await act(files, run)));
  }
  shell.print({ json: () => ({ remote: files.url, runs: rows }), text: () => rowsText(files.url, rows) });
  const isRefused = rows.some(({ result }) => result === "refused" || (result === "absent" && named.length > 0));
  if (isRefused) return "failed";
  return rows.some(({ result }) => result === "secrets") ? "needs_you" : "done";
}

function rowOf(run: string, result: Result): Row {
  const snapshots = "snapshots" in result ? result.snapshots : 0;
  const why =
    "why" in result ? result.why : "refusal" in result ? `${result.refusal.cause}: ${result.refusal.message}` : null;
  return { run, result: result.kind, snapshots, why };
}

function rowsText(remote: string, rows: readonly Row[]): string {
  const place = escapeText(remote);
  if (rows.length === 0) return "There is no run.\n";
  return rows
    .map(
      ({ run, result, snapshots, why }) =>
        `${run}: ${resultText(result, snapshots, place)}${why === null ? "" : `: ${escapeText(why)}`}\n`,
    )
    .join("");
}

function resultText(result: Row["result"], snapshots: number, place: string): string {
  switch (result) {
    case "pushed":
      return `${countText(snapshots, "snapshot")} sent to ${place}`;
    case "fetched":
      return `${countText(snapshots, "snapshot")} fetched from ${place}`;
    case "same":
      return `nothing is missing`;
    case "absent":
      return `${place} has no files of it`;
    case "refused":
      return `${place} refused`;
    case "secrets":
      return "not sent";
  }
}
