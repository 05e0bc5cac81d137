import type { Conflict, Resolution } from "../../../core/crunch/conflict.ts";
import { taskOf } from "../../../core/crunch/plan-phase-graph.ts";
import type { Graph, GraphNode } from "../../../core/graph.ts";
import { pureSha256 } from "../../../core/sha256.ts";
import type { Aside } from "../../../engine/stage-context.ts";
import { tell, timeOf } from "../work.ts";
import { askPerson } from "./ask-person.ts";
import { callAgent } from "./call-agent.ts";
import { resultsIn } from "./node-result.ts";
import type { NodeResult } from "./node-result.ts";
import { mendPrompt } from "./node-prompt.ts";
import type { NodeWork } from "./work-node.ts";

type Held = NonNullable<NodeResult["aside"]>;

/** What the nodes of a batch did to files comes together in the order of the definition, whoever was first. */
export async function mergeBatch(given: NodeWork, graph: Graph, batch: readonly string[]): Promise<void> {
  for (const { node: id, result } of resultsIn(graph)) {
    const node = graph.nodes.find((one) => one.id === id);
    if (!batch.includes(id) || result.aside === null || node === undefined) continue;
    await mergeNode(given, { node, task: taskOf(graph, node), held: result.aside });
  }
}

interface Merging {
  readonly node: GraphNode;
  readonly task: string;
  readonly held: Held;
}

async function mergeNode(given: NodeWork, merging: Merging): Promise<void> {
  const { context } = given;
  const { held } = merging;
  const aside = given.asides.get(held.name) ?? (await context.aside(held.name));
  const merged = await context.mergeAside(`${held.name}:merge`, { aside, commit: held.commit });
  if (merged.kind === "conflict") await mend(given, merging, { aside, files: merged.files, detail: merged.detail });
}

/** A conflict of files is one of the team's: written down, mended once by whose change it is, else a person says what becomes of it. */
async function mend(
  given: NodeWork,
  { node, task, held }: Merging,
  params: { readonly aside: Aside; readonly files: readonly string[]; readonly detail: string },
): Promise<void> {
  const { work, context, phase } = given;
  const { files, aside } = params;
  const key = `${held.name}:mend`;
  const at = await timeOf(context, `${key}:at`);
  const conflict = mergeConflict({ node, files, phase, at });
  await tell(context, `${key}:detected`, { kind: "conflict_detected", conflict });
  await context.checkpoint({ trigger: "conflict_start", name: conflict.topic.slice(0, 200) });
  const fresh = await context.aside(`${key}:aside`);
  const { report } = await callAgent(work, context, {
    key,
    agent: node.agent,
    role: `mend-${node.id}`,
    action: "resolve_conflict",
    node: node.id,
    phase,
    priority: "HIGH",
    prompt: mendPrompt({ task, files, diff: params.detail }),
    timeoutMs: node.timeoutMs,
    outputs: [],
    aside: fresh,
  });
  const again =
    report.outcome === "failed" || report.commit === null
      ? null
      : await context.mergeAside(`${key}:merge`, { aside: fresh, commit: report.commit });
  await context.dropAside(aside);
  if (again?.kind === "merged")
    return await resolve(given, conflict, { how: "agreement", choice: MENDED, by: node.agent, key });
  await context.dropAside(fresh);
  const question = `The change of ${node.agent} (${node.id}) does not go together with the others' in ${files.join(", ")}, and it could not be mended. Leave it out, or stop?`;
  const answer = await askPerson(given, {
    key,
    from: node.agent,
    type: "CONFLICT",
    question,
    options: [LEFT_OUT, STOP],
  });
  await resolve(given, conflict, { how: "person", choice: answer, by: "user", key });
}

const MENDED = "keep both changes";
export const LEFT_OUT = "leave it out";
export const STOP = "stop";

async function resolve(
  { context }: NodeWork,
  conflict: Conflict,
  params: { readonly how: Resolution["how"]; readonly choice: string; readonly by: string; readonly key: string },
): Promise<void> {
  const { how, choice, by, key } = params;
  const at = await timeOf(context, `${key}:resolved-at`);
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
    at,
    knowledge: null,
  };
  await tell(context, `${key}:resolved`, { kind: "conflict_resolved", conflict: conflict.id, resolution });
  await context.checkpoint({ trigger: "conflict_resolved", name: conflict.topic.slice(0, 200) });
}

function mergeConflict(params: {
  readonly node: GraphNode;
  readonly files: readonly string[];
  readonly phase: NodeWork["phase"];
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
