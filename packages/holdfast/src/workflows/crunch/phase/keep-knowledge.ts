import { parseCrunchState } from "../../../core/crunch/crunch-state.ts";
import { injectedEntries } from "../../../core/crunch/knowledge-book.ts";
import type { KnowledgeEntry, PendingCapture } from "../../../core/crunch/knowledge.ts";
import type { Phase } from "../../../core/crunch/phase.ts";
import { selectKnowledge } from "../../../core/crunch/select-knowledge.ts";
import type { WorkParts } from "../../../engine/work-parts.ts";
import { requireSetup, tell } from "../work.ts";
import type { CrunchContext, CrunchWork } from "../work.ts";

const MAX_ENTRIES = 20;
const MAX_CHARACTERS = 12_000;

/** What earlier runs learnt and fits this issue is told to the team of a phase, once. That nothing can be found hinders nobody. */
export async function injectKnowledge(
  { parts }: CrunchWork,
  context: CrunchContext,
  params: { readonly phase: Phase; readonly tags: readonly string[]; readonly at: string },
): Promise<void> {
  const { phase, at, tags } = params;
  const { issue } = requireSetup(context);
  const entries = await context.step("knowledge", async () => {
    const told = injectedEntries(context.state.knowledge);
    const known = await earlierKnowledge(parts, context.run.id);
    const select = { entries: known, tags, issue: issue.number, told, at };
    return [...selectKnowledge({ ...select, maxEntries: MAX_ENTRIES, maxCharacters: MAX_CHARACTERS })];
  });
  await tell(context, "knowledge-injected", { kind: "knowledge_injected", phase, entries, at });
}

/** All that was planned to be kept in this phase is kept, each once. */
export async function captureKnowledge(context: CrunchContext, at: string): Promise<void> {
  const names = await context.step("captures", () => context.state.knowledge.pending.map(({ name }) => name));
  for (const name of names) await tell(context, `captured:${name}`, { kind: "knowledge_captured", name, at });
}

/** On the way to the next phase: what was decided where opinions differed. */
export async function planDecisions(context: CrunchContext, phase: Phase): Promise<void> {
  const { issue } = requireSetup(context);
  const decisions = await context.step("decisions", () => decisionsOf(context, phase));
  for (const { name, content } of decisions) {
    const capture: PendingCapture = {
      name,
      type: "decision",
      content,
      tags: context.state.team?.domains ?? [],
      source: { type: "issue", ref: `#${issue.number}`, phase },
      issue: issue.number,
    };
    await tell(context, `planned:${name}`, { kind: "capture_planned", capture });
  }
}

/** What the whole of it came to. */
export async function keepResolution(context: CrunchContext, at: string): Promise<void> {
  const { issue } = requireSetup(context);
  const name = `resolution/${issue.number}`;
  const done = context.state.outputs.map(({ agent, summary }) => `${agent}: ${summary}`);
  const capture: PendingCapture = {
    name,
    type: "resolution",
    content: [`Issue #${issue.number}, ${issue.title}: ${context.position.reason ?? "done"}`, ...done].join("\n"),
    tags: context.state.team?.domains ?? [],
    source: { type: "issue", ref: `#${issue.number}`, phase: "done" },
    issue: issue.number,
  };
  await tell(context, "resolution-planned", { kind: "capture_planned", capture });
  await tell(context, "resolution-kept", { kind: "knowledge_captured", name, at });
}

function decisionsOf(
  { state }: CrunchContext,
  phase: Phase,
): readonly { readonly name: string; readonly content: string }[] {
  return state.conflicts
    .filter((conflict) => conflict.phase === phase)
    .flatMap(({ id, topic, resolution }) => {
      if (resolution === null) return [];
      const content = `${topic}: ${resolution.choice}. ${resolution.reasoning}`;
      return [{ name: `decision/${id}`, content }];
    });
}

/** Of every other crunch run of this repository. One that cannot be read has nothing to say. */
async function earlierKnowledge({ store }: WorkParts, own: string): Promise<readonly KnowledgeEntry[]> {
  const entries = new Map<string, KnowledgeEntry>();
  for (const run of await store.listRuns({ workflow: "crunch" })) {
    if (run.id === own) continue;
    try {
      const latest = await store.latest(run.id);
      if (latest === undefined) continue;
      for (const entry of parseCrunchState(latest.planes.context.values).knowledge.entries)
        entries.set(entry.id, entry);
    } catch {
      // Damaged, or of a version that is not ours: told by `holdfast verify`, and no reason to stop here.
    }
  }
  return [...entries.values()];
}
