import type { Finding, Verdict } from "../resume/finding.ts";
import type { Freshness, Standing } from "../resume/freshness.ts";
import { isJsonArray, isJsonObject } from "../json.ts";
import type { Json } from "../json.ts";
import { phaseOfLabels, replaceStateLabel, sameLabels } from "./labels.ts";
import { parsePhase } from "./phase.ts";
import type { Phase } from "./phase.ts";

/**
 * The labels of an issue are the source of truth about its phase. The run follows a state label that a person moved, with a warning, and never
 * writes the old one back. What cannot be followed is asked about: several state labels at once, an issue that was put back to where no run works.
 * Files that somebody changed are shown and asked about.
 */
export const crunchFreshness: Freshness = {
  isOwn: (finding, standing) =>
    awaitsMerge(finding, standing) ||
    (finding.kind === "issue_labels_changed" &&
      ownPhases(standing).some((phase) =>
        sameLabels(textsOf(finding.actual), replaceStateLabel(textsOf(finding.expected), phase)),
      )),
  judge: (finding) => {
    if (finding.kind === "files_changed") return "ask";
    return finding.kind === "issue_labels_changed" ? judgeLabels(finding) : null;
  },
  relocate(labels, standing) {
    const labelled = phaseOfLabels(labels);
    if (labelled.kind === "several" || labelled.label === null) return null;
    const { phase, label } = labelled;
    if (!CARRIED.has(phase) || ownPhases(standing).includes(phase)) return null;
    const stage = parsePhase(standing.position.stage);
    // Before the issue was read there is nothing to go on with; the first stage goes by the label itself.
    if (stage === null || (standing.values["base"] ?? null) === null) return null;
    return { stage: phase, why: `The issue's label says ${label}, and the run stood at ${stage}: it goes on there.` };
  },
};

/** What a run waits for at its last phase, and what comes with it, is no surprise: the stage sees it and concludes, which ends the run with its label. */
function awaitsMerge(finding: Finding, { position, values }: Standing): boolean {
  const opened = isJsonObject(values["pullRequest"]);
  return AWAITED.has(finding.kind) && position.stage === "ready-to-merge" && opened;
}

const AWAITED: ReadonlySet<Finding["kind"]> = new Set<Finding["kind"]>(["pull_request_merged", "issue_closed"]);

/** Phases that a run works in, or ends at. */
const CARRIED: ReadonlySet<Phase> = new Set<Phase>([
  "enrich",
  "ready",
  "implementing",
  "e2e",
  "docs",
  "ready-to-merge",
  "done",
]);

/**
 * State labels that the run itself may have set last: that of the phase it entered last, and that of the one it stands at, whose label is set
 * before the entering is written down.
 */
function ownPhases({ position, values }: Standing): readonly Phase[] {
  const stays = values["phases"];
  const last = isJsonArray(stays) ? stays.at(-1) : undefined;
  const entered = isJsonObject(last) && typeof last["phase"] === "string" ? parsePhase(last["phase"]) : null;
  return [parsePhase(position.stage), entered].filter((phase) => phase !== null);
}

function judgeLabels(finding: Finding): Verdict {
  const labelled = phaseOfLabels(textsOf(finding.actual));
  if (labelled.kind === "several") return "ask";
  const before = phaseOfLabels(textsOf(finding.expected));
  const moved = before.kind === "several" || before.phase !== labelled.phase;
  return moved && !CARRIED.has(labelled.phase) ? "ask" : "warn";
}

function textsOf(value: Json): readonly string[] {
  return isJsonArray(value) ? value.filter((one) => typeof one === "string") : [];
}
