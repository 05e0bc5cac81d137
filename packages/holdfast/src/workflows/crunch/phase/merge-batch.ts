import type { Conflict, Resolution } from "../../../core/crunch/conflict.ts";
import type { Phase } from "../../../core/crunch/phase.ts";
import { parseReply } from "../../../core/crunch/reply.ts";
import type { Graph, GraphNode } from "../../../core/graph/graph.ts";
import { pureSha256 } from "../../../core/sha256.ts";
import type { EndedBatch } from "../../../engine/graph/graph-work.ts";
import type { Aside } from "../../../engine/stage-context.ts";
import { isoNow, tell } from "../work.ts";
import { taskOfNode } from "./add-nodes.ts";
import { askPerson } from "./ask-person.ts";
import { answerRequest } from "./answer-request.ts";
import { callAgent } from "./call-agent.ts";
import { resultsIn } from "./node-result.ts";
import type { NodeResult } from "./node-result.ts";
import { mendPrompt } from "./node-prompt.ts";
import { takeCheckpoint } from "./phase-work.ts";
import type { Naming, PhaseWork } from "./phase-work.ts";

type Held = NonNullable<NodeResult["aside"]>;

/**
 * What the nodes of a batch did to files comes together in the order of the definition, whoever was first. A batch ends again when a node of it
 * is tried again: what came together before stays so.
 */
export async function mergeBatch(given: PhaseWork, graph: Graph, batch: EndedBatch): Promise<void> {
  for (const { node: id, result } of resultsIn(graph)) {
    const node = graph.nodes.find((one) => one.id === id);
    if (!batch.nodes.includes(id) || result.aside === null || node === undefined) continue;
    const naming: Naming = (part) => `${result.of}/${part}`;
    if (isSettled(given, naming)) continue;
    await mergeNode(given, { node, task: taskOfNode(graph, node), held: result.aside, naming });
  }
}

/** Asked of what is written down alone: in this process or before. */
function isSettled({ context }: PhaseWork, naming: Naming): boolean {
  return Object.hasOwn(context.position.visit.steps, naming(SETTLED));
}

const SETTLED = "settled";

interface Merging {
  readonly node: GraphNode;
  readonly task: string;
  readonly held: Held;
  readonly naming: Naming;
}

async function mergeNode(given: PhaseWork, merging: Merging): Promise<void> {
  const { context } = given;
  const { held, naming } = merging;
  const aside = given.asides.get(held.name) ?? (await context.aside(held.name));
  const merged = await context.mergeAside(naming("merge"), { aside, commit: held.commit });
  if (merged.kind === "conflict") await mend(given, merging, { aside, files: merged.files, detail: merged.detail });
  await context.step(naming(SETTLED), () => true);
}

/** A conflict of files is one of the team's: written down, mended once by whose change it is, else a person says what becomes of it. */
async function mend(
  given: PhaseWork,
  { node, task, naming }: Merging,
  params: { readonly aside: Aside; readonly files: readonly string[]; readonly detail: string },
): Promise<void> {
  const { work, context, phase } = given;
  const { files, aside } = params;
  const { conflict } = await tell(context, naming("conflict"), {
    kind: "conflict_detected",
    conflict: mergeConflict({ node, files, phase, at: isoNow(context) }),
  });
  await takeCheckpoint(given, "conflict_start", conflict.topic);
  const fresh = await context.aside(naming("mend-aside"));
  const { report, request } = await callAgent(work, context, {
    naming: (part) => naming(`mend-${part}`),
    agent: node.agent,
    role: `mend-${node.id}`,
    action: "resolve_conflict",
    node: node.id,
    phase,
    priority: "HIGH",
    prompt: (fence) => mendPrompt({ task, files, diff: params.detail, fence }),
    timeoutMs: node.timeoutMs,
    attempt: 1,
    outputs: [],
    aside: fresh,
  });
  // Nobody else can make this change: who hands it over has not made it.
  const reply = report.outcome === "completed" ? { ...parseReply(report.text), handoff: null } : null;
  if (reply !== null)
    await answerRequest(given, { name: naming("mend-answer"), agent: node.agent, request, reply, report });
  const gaveUp = reply === null || reply.status === "FAILED" || reply.status === "BLOCKED";
  const again =
    gaveUp || report.commit === null
      ? null
      : await context.mergeAside(naming("mend-merge"), { aside: fresh, commit: report.commit });
  await context.dropAside(aside);
  // One that changed nothing has not made its change again: it would be lost without a word.
  if (again?.kind === "merged" && again.files.length > 0)
    return await resolve(given, conflict, { how: "agreement", choice: MENDED, by: node.agent, naming });
  if (again?.kind !== "merged") await context.dropAside(fresh);
  const question = `The change of ${node.agent} (${node.id}) does not go together with the others' in ${files.join(", ")}, and it could not be mended. Leave it out, or stop?`;
  const answer = await askPerson(given, {
    naming,
    from: node.agent,
    type: "CONFLICT",
    question,
    options: [LEFT_OUT, STOP],
  });
  await resolve(given, conflict, { how: "person", choice: answer, by: "user", naming });
}

const MENDED = "keep both changes";
const LEFT_OUT = "leave it out";
const STOP = "stop";

/** Why a person ended the phase over files that do not go together; null: nobody did. */
export function stoppedOver(conflicts: readonly Conflict[], phase: Phase): string | null {
  const over = conflicts.find(
    (conflict) =>
      conflict.phase === phase && conflict.choices.includes(LEFT_OUT) && conflict.resolution?.choice === STOP,
  );
  return over === undefined ? null : `Stopped by a person over ${over.topic}`;
}

async function resolve(
  given: PhaseWork,
  conflict: Conflict,
  params: { readonly how: Resolution["how"]; readonly choice: string; readonly by: string; readonly naming: Naming },
): Promise<void> {
  const { how, choice, by, naming } = params;
  const { context } = given;
  const resolution: Resolution = {
    how,
    choice,
    winner: by,
    reasoning: how === "person" ? "a person decided" : "the change was made again on top of the others'",
    conditions: [],
    scores: [],
    vetoApplied: false,
    userOverride: false,
    dissent: [],
    at: isoNow(context),
    knowledge: null,
  };
  await tell(context, naming("resolved"), { kind: "conflict_resolved", conflict: conflict.id, resolution });
  await takeCheckpoint(given, "conflict_resolved", conflict.topic);
}

function mergeConflict(params: {
  readonly node: GraphNode;
  readonly files: readonly string[];
  readonly phase: PhaseWork["phase"];
  readonly at: string;
}): Conflict {
  const { node, files, phase, at } = params;
  const hash = pureSha256(JSON.stringify([node.id, files])).slice(0, 8);
  return {
    id: `CONF-${at.slice(0, 19).replaceAll(/[-:]/g, "")}-${hash}`,
    topic: `the changes to ${files.join(", ")} of ${node.id} and of others`,
    phase,
    detectedAt: at,
    domains: [],
    participants: [node.agent],
    choices: [MENDED, LEFT_OUT],
    recommendations: [],
    rounds: [],
    escalation: null,
    resolution: null,
  };
}
