import type { Holdfast } from "../../../app.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Graph } from "../../../core/graph/graph.ts";
import { pictureGraph } from "../../../core/graph/graph-picture.ts";
import type { GraphPicture } from "../../../core/graph/graph-picture.ts";
import type { Shell } from "../../command.ts";
import { findRun } from "../../find-run.ts";
import { mermaidText } from "../../output/mermaid.ts";

interface ShownGraph {
  /** The run, or the checkpoint. */
  readonly of: string;
  readonly graph: Graph;
  readonly picture: GraphPicture;
}

/** Mermaid for people and pages, the graph as data under --json. Of a run: as it stands now; of a checkpoint: as it was then. */
export async function showGraph(shell: Shell, holdfast: Holdfast, address: string | undefined): Promise<Exit> {
  const shown =
    address?.includes("@") === true ? await graphThen(holdfast, address) : await graphNow(holdfast, address);
  const { graph, picture } = shown;
  shell.print({
    json: () => ({ of: shown.of, graph: picture, edges: graph.edges }),
    text: () => mermaidText(graph, picture),
  });
  for (const problem of picture.problems) shell.say(`The graph cannot be run: ${problem}`);
  if (picture.nodes.length > MANY)
    shell.say(`Many viewers refuse drawings of this size; \`${shell.talk.program} status\` summarises it.`);
  return "done";
}

async function graphNow(holdfast: Holdfast, typed: string | undefined): Promise<ShownGraph> {
  const { id } = await findRun(holdfast, typed);
  const found = await holdfast.graph(id);
  if (found === null) throw noGraph(`Run ${id}`);
  return { of: id, ...found };
}

/** What ran when the checkpoint was taken did run then, whatever became of it. */
async function graphThen(holdfast: Holdfast, address: string): Promise<ShownGraph> {
  const { run, sequence } = await holdfast.resolve(address);
  const { id, createdAt, planes } = await (await holdfast.run(run)).get(sequence);
  const { graph } = planes.position;
  if (graph === null) throw noGraph(`Checkpoint ${id}`);
  const moment = { live: true, now: Date.parse(createdAt), seenAt: createdAt };
  return { of: id, graph, picture: pictureGraph(graph, moment) };
}

function noGraph(what: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `${what} has no task graph`,
    hint: "Only workflows that split their work into nodes have one; `holdfast show` shows what there is.",
  });
}

/** Mermaid draws no more than 500 edges and 50 000 characters unless it is told to. */
const MANY = 200;
