import { HoldfastError } from "../../core/error.ts";
import { findSecrets, maskSecrets } from "../../core/mask.ts";
import type { NewEntry } from "../../core/journal/journal.ts";
import type { Json } from "../../core/json.ts";
import type { Amounts } from "../../core/position/position.ts";
import { rebaseRunning } from "../../core/state.ts";
import { capture } from "../../core/values/index.ts";
import type { FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import type { AgentOutcome } from "../../ports/agent.ts";
import type { Workspace } from "../../ports/workspace.ts";
import { requireAsides } from "../asides/asides.ts";
import type { OpenAside } from "../asides/asides.ts";
import { lookParams } from "../parts.ts";
import { noteAgent } from "../record/record-agent.ts";
import type { AgentTake } from "../record/record-agent.ts";
import type { RunSession } from "../conduct/run-session.ts";
import type { AgentCall, AgentReport, CheckoutChange } from "../stage-context.ts";
import type { Stay } from "../stage/stay.ts";

export interface Tried {
  readonly outcome: AgentOutcome;
  /** The one that it went on with. */
  readonly session: string | null;
  readonly spent: Amounts;
  readonly milliseconds: number;
  /** null: the run is not recorded. */
  readonly take: AgentTake | null;
  /** What changed in the user's main checkout meanwhile; null: nothing. */
  readonly checkout: CheckoutChange | null;
}

/** What a call came to, with the files that belong to it, as one act. */
export async function concludeCall(
  stay: Stay,
  trying: {
    readonly call: AgentCall;
    readonly workspace: Workspace;
    /** Of the run's own. */
    readonly files: boolean;
    readonly aside: OpenAside | null;
  },
  tried: Tried,
): Promise<AgentReport> {
  const { writer } = stay;
  const { aside, call } = trying;
  const { name } = call;
  const collected = await collectOutputs(stay, trying);
  stay.open();
  const before = writer.files?.tree ?? null;
  const finish = (found: Found, files: FilesPlane | null, as = tried): readonly [AgentReport, NewEntry] => {
    noteAgent(writer, as.take, { after: files, failed: null });
    const report = reportOf(as, { ...found, ...collected });
    writer.sideTalks.delete(name);
    return [report, stay.finished(name, { result: report, spent: as.spent })];
  };
  let report: AgentReport | undefined;
  if (trying.files) {
    await writer.save({
      trigger:
        isComplete(collected) && writer.parts.checkpoints.artifactComplete ? "artifact_complete" : "agent_complete",
      name,
      change: (planes, { sequence }) => rebaseRunning(planes, sequence),
      prepare: ({ files }) => {
        const changed = files === null || before === null ? null : files.tree !== before;
        const [made, entry] = finish({ changed, commit: null, aside: null }, files);
        report = made;
        return [entry];
      },
    });
  } else {
    const found = aside === null ? NOT_ASIDE : await foundAside(stay, aside, trying.workspace);
    stay.open();
    const files = aside === null ? writer.files : null;
    const [made, entry] = found === null ? finish(NOT_ASIDE, files, deserted(tried)) : finish(found, files);
    report = made;
    await writer.append(entry);
    if (aside !== null && found !== null && found.commit !== null) aside.commit = found.commit;
  }
  if (report === undefined) throw new TypeError("a checkpoint was saved without its entries");
  writer.tell({ kind: "step_finished", step: name, replayed: false });
  return report;
}

type Found = Pick<AgentReport, "changed" | "commit" | "aside">;

const NOT_ASIDE: Found = { changed: null, commit: null, aside: null };

/** Pinned before the journal names it. null: the folder is gone. */
async function foundAside({ writer }: Stay, aside: OpenAside, workspace: Workspace): Promise<Found | null> {
  const { parts, run } = writer;
  const asides = requireAsides(writer, aside.name);
  const look = await workspace.look(lookParams(parts)).catch((error: unknown) => {
    if (error instanceof HoldfastError && error.code === "WORKSPACE_MISSING") return null;
    throw error;
  });
  if (look === null) return null;
  const { tree, commit, skipped } = look;
  await asides.pin({ run: run.id, commit });
  const changed = tree !== (await asides.treeOf(aside.commit));
  return { changed, commit, aside: { name: aside.name, from: aside.commit, skipped } };
}

/** Who takes the folder away that it works in has done nothing, whatever it says; to fail over it each time would be the end of the run. */
function deserted(tried: Tried): Tried {
  const { outcome } = tried;
  if (outcome.kind === "failed") return tried;
  const { session, usage } = outcome;
  const message = "The folder that it worked in is gone, and its work with it";
  const failed = { kind: "failed", cause: "crash", message, hint: null, until: null, instant: false } as const;
  return { ...tried, outcome: { ...failed, session, usage } };
}

/** Everything that the call was to leave is there. */
function isComplete({ collected }: Pick<AgentReport, "collected">): boolean {
  const texts = Object.values(collected);
  return texts.length > 0 && texts.every((text) => text !== null);
}

async function collectOutputs(
  { writer }: Stay,
  { call, workspace }: { readonly call: AgentCall; readonly workspace: Workspace },
): Promise<Pick<AgentReport, "collected" | "uncollected">> {
  const outputs = writer.parts.outputs(workspace.root);
  const collected: Record<string, string | null> = {};
  const uncollected: Record<string, string> = {};
  for (const path of call.collect ?? []) {
    const text = await outputs.read(path);
    collected[path] = text === null ? null : await maskAndReport(writer, path, text);
    const why = collected[path] === null ? await outputs.refusal(path) : null;
    if (why !== null) uncollected[path] = why;
  }
  return { collected, uncollected };
}

/** Text that an agent left for others: secrets in it are masked, and the journal says so. */
export async function maskAndReport(writer: RunSession, what: string, text: string): Promise<string> {
  const { mask, find } = writer.parts.masking ?? { mask: maskSecrets, find: findSecrets };
  const masked = mask(text);
  if (masked === text) return text;
  const kinds = [...new Set(find(text).map(({ kind }) => kind))].join(", ") || "secret";
  const told = `${what} held what looks like a secret (${kinds}). It is masked as ***.`;
  await writer.append({ kind: "note", body: { text: told } });
  writer.tell({ kind: "note", text: told });
  return masked;
}

function reportOf(
  { outcome, milliseconds, checkout }: Tried,
  found: Found & Pick<AgentReport, "collected" | "uncollected">,
): AgentReport {
  const failed = outcome.kind === "failed";
  const { inputTokens, outputTokens, microUsd } = outcome.usage;
  const report: AgentReport = {
    outcome: outcome.kind,
    cause: failed ? outcome.cause : null,
    message: failed ? outcome.message : null,
    text: failed ? "" : outcome.text,
    session: outcome.session,
    usage: { inputTokens, outputTokens, microUsd },
    ...found,
    milliseconds,
    ...(checkout === null ? {} : { checkout }),
  };
  const captured: Json = capture(report);
  // A capture has the shape of what it was taken from.
  return captured as AgentReport;
}
