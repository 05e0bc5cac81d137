import type { GraphPhase } from "../../core/crunch/graph-template.ts";
import { isAtOrPast } from "../../core/crunch/phase.ts";
import { editsFiles, planPhaseGraph } from "../../core/crunch/plan-phase-graph.ts";
import { keepEnd } from "../keep-end.ts";
import type { Place } from "./enter-phase.ts";
import { requireSetup } from "./work.ts";
import type { CrunchContext, CrunchWork } from "./work.ts";

/**
 * Why there will be nothing to open a pull request for, as soon as that is known: the branch holds nothing that its base has not, and nobody of the team is
 * to change files in what is still to come. null: go on.
 */
export async function whyEmpty(
  { options }: CrunchWork,
  context: CrunchContext,
  params: { readonly place: Place; readonly phase: "implementing" | "docs"; readonly summary: string },
): Promise<string | null> {
  const { place, phase, summary } = params;
  if (!isAtOrPast(options.target, "ready-to-merge")) return null;
  if (LATER[phase].some((later) => mayEdit(context, later, place.at))) return null;
  const { base } = requireSetup(context);
  const { branch } = place.worktree;
  const isEmpty = await context.step("empty", async () =>
    branch.isAncestor({ ancestor: await branch.head(), of: base.commit }),
  );
  if (!isEmpty) return null;
  const said = summary.trim() === "" ? "" : ` What the team said:\n${keepEnd(summary.trim(), SAID_CHARACTERS)}`;
  return `Nobody has changed any file, and nobody is to in the phases after ${phase}: there is nothing to open a pull request for.${said}`;
}

const SAID_CHARACTERS = 1000;

const LATER: Readonly<Record<"implementing" | "docs", readonly GraphPhase[]>> = {
  implementing: ["e2e", "docs"],
  docs: [],
};

function mayEdit(context: CrunchContext, phase: GraphPhase, at: string): boolean {
  const { settings, issue } = requireSetup(context);
  const { team } = context.state;
  if (team === null) return false;
  const template = settings.graphs[phase];
  const { labels } = issue;
  const graph = planPhaseGraph({ phase, template, team, agents: settings.agents, labels, attempt: 1, at });
  return graph.nodes.some((node) => editsFiles(graph, node));
}
