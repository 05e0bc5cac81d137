/**
 * The facts that the preflight judges before a run starts, the form of its rules, and what rules of both levels share.
 * observe-start.ts gathers the facts.
 */
import type { AgentProbe } from "@holdfast/core/agent";
import type { PushRefusal, Remote } from "@holdfast/core/branch";
import type { Work } from "@holdfast/core/run";
import { byteText } from "@holdfast/core/store-size";
import type { CheckoutFacts } from "@holdfast/core/workspace";
import type { ErrorCode, HoldfastError } from "@holdfast/platform/error";
import type { ForgeUse } from "@holdfast/workflows/built-in";
import type { AgentRole } from "@holdfast/workflows/plugin";

/** What is known before a run, a branch, a worktree or a store is created. */
export interface StartFacts {
  readonly work: Work;
  /** What the workflow needs a forge for if the work is a task. */
  readonly forgeUse: ForgeUse;
  /** The id that the run would get. */
  readonly run: string;
  /** The user asked for a new run although the work may be done. */
  readonly again: boolean;
  /** null: there is no repository, or the run works without files. */
  readonly repository: RepositoryFacts | null;
  /** The workflow edits files, so it needs a repository. */
  readonly needsFiles: boolean;
  /** A worker executes the run, perhaps on another machine, so what it starts need not be on this one. */
  readonly forWorkers: boolean;
  /** The user chose to work without a forge. */
  readonly isForgeDeclined: boolean;
  /** null: there is none. */
  readonly forge: { readonly name: string; readonly location: string } | null;
  /** The forge's refusal: no login, a missing right, no answer. */
  readonly forgeError: HoldfastError | null;
  /** null: the work is not an issue, or the forge could not be asked. */
  readonly issue: "absent" | "open" | "closed" | null;
  readonly agents: readonly AgentFacts[];
  /** No agent is named although the workflow needs one; null: one is. */
  readonly unnamedAgent: { readonly ready: readonly string[]; readonly hint: string } | null;
  readonly commands: readonly CommandFacts[];
  /** The agent of each role. */
  readonly roles: readonly AgentRole[];
  /** Folders in which the run writes. */
  readonly folders: readonly FolderFacts[];
}

export interface RepositoryFacts {
  /** null: a bare repository. */
  readonly checkout: CheckoutFacts | null;
  readonly remote: Pick<Remote, "name" | "url"> | null;
  /** Host of the remote; null: the remote is a directory, or there is none. */
  readonly host: string | null;
  /** Why the remote could not be fetched; null: it was, or there is none. */
  readonly unreachable: PushRefusal | null;
  readonly base: BaseFacts;
  /** The branch that the run would get, and who has it already. */
  readonly branch: {
    readonly name: string;
    readonly taken: null | { readonly worktree: string | null };
    /** A branch such as `holdfast`, beside which git cannot have a branch `holdfast/…`; null: there is none. */
    readonly blockedBy: string | null;
  };
  /** A folder in the place of the run's worktree; null: the place is free. */
  readonly occupied: string | null;
}

export type BaseFacts =
  | { readonly kind: "found"; readonly branch: string | null; readonly commit: string; readonly hasHead: boolean }
  /** The run starts from HEAD. */
  | { readonly kind: "head" }
  /** A named branch that does not exist. */
  | { readonly kind: "missing"; readonly branch: string }
  /** There is no commit to start from. */
  | { readonly kind: "none" };

export interface AgentFacts {
  /** `provider:model`. */
  readonly name: string;
  readonly provider: string;
  readonly probe: AgentProbe;
  /** null: Holdfast needs no certain version of it. */
  readonly version: { readonly needs: string; readonly verdict: "ok" | "too_old" | "unknown" } | null;
  /** Used only if another agent fails. */
  readonly fallback: boolean;
}

export interface CommandFacts {
  /** Such as "the gate" or "the agent". */
  readonly role: string;
  readonly line: string;
  readonly program: string;
  readonly problem: "missing" | "not_executable";
  /** Where the program was looked for: on this machine, or in the files of the base, which the run may change. */
  readonly where: "system" | "base";
  readonly isAgent: boolean;
  /** The file exists in the current directory, without being committed. */
  readonly here: string | null;
}

export interface FolderFacts {
  readonly path: string;
  /** Why it cannot be written; null: it can. */
  readonly problem: string | null;
  /** null: it cannot be measured. */
  readonly freeBytes: number | null;
}

export interface PreflightFinding {
  readonly check: string;
  /** A notice does not prevent the start. */
  readonly level: "error" | "notice";
  readonly code: ErrorCode | null;
  readonly message: string;
  readonly hint: string | null;
}

/** What a rule found. */
export type Said = { readonly message: string; readonly hint: string | null; readonly code?: ErrorCode };

/** A rule of the preflight. */
export interface PreflightRow {
  readonly check: string;
  /** For docs/errors.md. */
  readonly mistake: string;
  readonly level: PreflightFinding["level"];
  /** The code of the error; null for a notice. A finding may carry its own: a forge reports why it refuses. */
  readonly code: ErrorCode | null;
  /** What else makes an error a notice: a dry run calls no agent, and --wait waits for space. */
  readonly noticeIn?: "dry-run" | "wait";
  /** About a program of this machine. A worker checks its own. */
  readonly ofMachine?: true;
  readonly judge: (facts: StartFacts) => readonly Said[];
}

/** Below this a run cannot save. The same limit ends the wait of a run for space. */
const NEEDED_BYTES = 8 * 1024 ** 2;
/** Below this the next checkouts and builds probably fail. */
const LOW_BYTES = 1024 ** 3;

/** The same verdict for the preflight and for `doctor`. */
export function judgeSpace(free: number): "full" | "low" | "enough" {
  if (free < NEEDED_BYTES) return "full";
  return free < LOW_BYTES ? "low" : "enough";
}

export function isTooOld({ version }: Pick<AgentFacts, "version">): boolean {
  return version?.verdict === "too_old";
}

export function cannot(provider: string, { problem, hint }: AgentProbe): Said {
  return { message: `The agent ${provider} cannot be used: ${problem ?? "it is not ready"}`, hint };
}

export function commandMissing({ role, line, program, problem, where, here, isAgent }: CommandFacts): Said {
  if (problem === "not_executable")
    return {
      message: `${role} \`${line}\` cannot run: ${program} is not executable`,
      hint: `Run \`chmod +x ${program}\`${where === "base" ? " and commit the change" : ""}.`,
    };
  if (where === "system")
    return {
      message: `${role} \`${line}\` cannot run: ${program} ${program.includes("/") ? "does not exist" : "is not on PATH"}`,
      hint: `Install it, or name another command. \`command -v ${program}\` shows whether it is found.`,
    };
  const message = `${role} \`${line}\` ${isAgent ? "cannot run" : "fails until it exists"}: ${program} is not in the files that the run starts from`;
  if (here !== null) return { message, hint: `It exists here: commit it, or give its whole path: ${here}.` };
  return { message, hint: "Commands run in the run's worktree: commit the file, or give a whole path." };
}

export function spaceFindings(folders: readonly FolderFacts[], wanted: "full" | "low"): readonly Said[] {
  const [tightest] = folders
    .flatMap(({ path, freeBytes }) => (freeBytes === null ? [] : [{ path, free: freeBytes }]))
    .toSorted((one, other) => one.free - other.free);
  if (tightest === undefined || judgeSpace(tightest.free) !== wanted) return [];
  const message = `${byteText(tightest.free)} are free at ${tightest.path}, and a run needs at least ${byteText(NEEDED_BYTES)}`;
  return [{ message, hint: "Free some space. `holdfast gc --dry-run` shows what Holdfast can remove." }];
}

export function lastLine(text: string): string {
  return text.trim().split("\n").at(-1)?.trim() ?? "";
}
