/** Runs side by side, and the whole story of one run on one page. Reads only. */
import { reliedOn } from "@holdfast/core/findings";
import type { ChangedFile, Changes, ComparePage, FilePatch, Report } from "@holdfast/dashboard/api";
import { usageError } from "@holdfast/platform/error";
import { comparisonJson } from "../cli/commands/compare.ts";
import { parseKey } from "./actions.ts";
import type { ChangesReader } from "./changes.ts";
import type { OpenRepository, Repositories } from "./repositories.ts";
import { type KnownFindings, readCheckpoints, readEffects, readRunPage, readTimeline } from "./run-page.ts";

const MOST = 8;
/** Lines of all patches of a report: more than this is not read on paper. */
const MAX_REPORT_LINES = 5000;
const MAX_REPORT_CHECKPOINTS = 500;

/** `shop/issue-42,shop/other-way@7`, all in one repository. */
export async function readComparison(repositories: Repositories, text: string): Promise<ComparePage> {
  const words = text.split(",").filter((word) => word !== "");
  if (words.length < 2 || words.length > MOST) throw usageError(`Compare two to ${MOST} runs`);
  const sides = words.map((word) => {
    const at = word.lastIndexOf("@");
    const key = at === -1 ? word : word.slice(0, at);
    return { key, ...parseKey(key), at: at === -1 ? "" : word.slice(at) };
  });
  const [first] = sides;
  if (first === undefined || sides.some(({ repository }) => repository !== first.repository))
    throw usageError("Runs of different repositories cannot be compared");
  const opened = await repositories.open(first.repository);
  const addresses = sides.map(({ run, at }) => `${run}${at}`);
  const compared = await opened.holdfast.compare(addresses);
  const now = repositories.now();
  const rows = [];
  for (const { run } of sides) rows.push(await opened.row(await opened.holdfast.runWithStatus(run), now));
  const keys = [...new Set(sides.map(({ key }) => key))];
  return {
    rows,
    comparison: comparisonJson(compared, null),
    choose: keys.map((key) => ({
      label: `Choose ${parseKey(key).run}`,
      action: { kind: "choose", run: key, others: keys.filter((other) => other !== key) },
      why: keys.length < 2 ? "There is no other run." : null,
      undo: true,
    })),
    command: `holdfast compare ${addresses.join(" ")}`,
  };
}

/** Everything that a reader needs who cannot ask the server again. */
export async function readReport(
  opened: OpenRepository,
  run: string,
  params: { readonly changes: ChangesReader; readonly now: number; readonly findings: KnownFindings },
): Promise<Report> {
  const { changes: reader, now } = params;
  const page = await readRunPage(opened, run, params);
  const timeline = await readTimeline(opened, run, now);
  const { checkpoints } = await readCheckpoints(opened, run, { before: null, limit: MAX_REPORT_CHECKPOINTS });
  const effects = await readEffects(opened, run);
  const { checkpoint } = await (await opened.holdfast.run(run)).newestWhole();
  const planes = checkpoint?.planes;
  const base = planes === undefined ? null : (reliedOn(planes).base?.commit ?? planes.files?.base ?? null);
  const tree = planes?.files?.tree ?? null;
  if (base === null || tree === null || checkpoint === undefined)
    return { page, timeline, checkpoints, effects, changes: null, patches: [] };
  const files = await reader.filesBetween(opened, base, tree);
  const changes: Changes = {
    a: `${run}@base`,
    b: checkpoint.id,
    files,
    values: [],
    conversation: null,
    effects: [],
    notCompared: [],
    command: `holdfast diff ${base} ${checkpoint.id}`,
  };
  return {
    page,
    timeline,
    checkpoints,
    effects,
    changes,
    patches: await patchesOf(reader, opened, { base, tree, files }),
  };
}

/** The patches in the order of the list, until the page is long enough. */
async function patchesOf(
  reader: ChangesReader,
  opened: OpenRepository,
  params: { readonly base: string; readonly tree: string; readonly files: readonly ChangedFile[] },
): Promise<readonly FilePatch[]> {
  const patches: FilePatch[] = [];
  let lines = 0;
  for (const file of params.files) {
    lines += (file.added ?? 0) + (file.removed ?? 0);
    if (lines > MAX_REPORT_LINES) break;
    patches.push(await reader.patch(opened, { from: params.base, to: params.tree, file }));
  }
  return patches;
}
