import { join } from "node:path";
import { ERROR_CODES, HoldfastError } from "../../core/error.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { RecordedLookup } from "../../core/replay/recorded-call.ts";
import type { RunSummary } from "../../core/run/run.ts";
import { capture } from "../../core/values/index.ts";
import type { Workflow } from "../../engine/definition.ts";
import { eachForgeQuestion, eachRemoteQuestion } from "../../engine/record/each-question.ts";
import type { Wrap } from "../../engine/record/each-question.ts";
import { replayRun } from "../../engine/replay/replay-run.ts";
import type { ReplayReport } from "../../engine/replay/replay-report.ts";
import type { Player } from "../../engine/replay/player.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import type { Forge } from "../../ports/forge.ts";
import { openMemoryStore } from "../../stores/memory/memory-store.ts";
import { openGitWorkspaces } from "../../workspaces/git-workspaces.ts";
import { makeScratchRepository } from "../../workspaces/scratch-repository.ts";
import { ownWorkflow } from "./choose-workflow.ts";
import { maskOwnSecrets } from "./recorded-parts.ts";

/** In a temporary repository and a store in memory, both gone afterwards. Of the run and its repository nothing is changed. */
export async function replay(
  parts: WorkParts,
  params: {
    readonly run: RunSummary;
    readonly to: number | null;
    /** Of a run that follows one of its own; undefined: one that is built in. */
    readonly workflow: Workflow<JsonObject> | undefined;
    readonly signal: AbortSignal;
  },
): Promise<ReplayReport> {
  const { run, to, workflow, signal } = params;
  const { workspaces } = parts;
  await using scratch = workspaces === null ? null : await makeScratchRepository(workspaces.commonDir);
  const places = scratch === null ? null : await openGitWorkspaces(scratch.root);
  return await replayRun({
    parts,
    run,
    to,
    signal,
    mask: maskOwnSecrets,
    worktree: join(scratch?.root ?? "", "worktree"),
    workflow: (played, options) => workflow ?? ownWorkflow(played, run, options),
    scratch: (player) => ({
      ...parts,
      store: openMemoryStore({ clock: { now: () => player.time } }),
      workspaces: places,
      clock: { now: () => player.time, elapsed: () => 0 },
      liveness: () => "dead",
      requests: null,
      worktreePath: undefined,
      agent: (provider) => refuse(`agent ${provider}`),
      checkpointEveryMs: null,
      forge: parts.forge === null ? null : playedForge(parts.forge, player),
      branches: {
        of: async (worktree) => eachRemoteQuestion(await parts.branches.of(worktree), played(player)),
        asking: () => refuse("question to the remote"),
      },
      commands: {
        run: ({ command }) => refuse(`command ${command}`),
        endMarked: () => Promise.resolve({ ended: 0, supported: true }),
      },
      syntax: { check: () => refuse("syntax gate") },
      agentLog: () => ({ path: "", append: () => undefined, close: () => Promise.resolve() }),
      wait: () => Promise.resolve(),
    }),
  });
}

export interface ReplayRequest<S extends JsonObject = JsonObject> {
  readonly run: string;
  /** Sequence of the last checkpoint to be made again; absent: as far as the record goes. */
  readonly to?: number;
  /** Needed for runs of a workflow of your own. */
  readonly workflow?: Workflow<S>;
  readonly signal?: AbortSignal;
}

/** Nothing that reaches beyond the scratch place may be called at all: all such calls are answered from the record before they come here. */
function refuse(what: string): never {
  throw new HoldfastError({
    code: "INTERNAL",
    message: `A replay came to the point of starting the ${what}, which must not be`,
  });
}

function playedForge(forge: Forge, player: Player): Forge {
  return eachForgeQuestion(forge, () => playedForge(forge, player), played(player));
}

function played(player: Player): Wrap {
  return <A extends readonly unknown[], R>(method: string) =>
    async (...args: A): Promise<R> => {
      const asked = args.map((arg) => capture(arg));
      // What was answered to this very question then.
      return await Promise.resolve(answerOf(player.lookUp(method, asked)) as R);
    };
}

function answerOf(answer: RecordedLookup["answer"]): Json {
  if (answer.kind === "answered") return answer.value;
  const code = ERROR_CODES.find((known) => known === answer.code) ?? "FORGE_FAILED";
  throw new HoldfastError({ code, message: answer.message, retry: "later" });
}
