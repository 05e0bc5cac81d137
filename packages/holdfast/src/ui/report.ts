/** Runs side by side, and the whole story of one run on one page. Reads only. */
import type { ComparePage, Report } from "@holdfast/dashboard/api";
import { createMasking, maskValue } from "@holdfast/core/mask";
import { usageError } from "@holdfast/platform/error";
import { CHOSEN, comparisonJson } from "../cli/commands/compare.ts";
import { commandText, parseKey } from "./actions.ts";
import { type ChangesReader, type FoundFile, baseOf } from "./changes.ts";
import type { OpenRepository, Repositories } from "./repositories.ts";
import { type KnownFindings, readCheckpoints, readEffects, readRunPage, readTimeline } from "./run-page.ts";

const MOST = 8;
/** Lines of all patches of a report: more than this is not read on paper. */
const MAX_REPORT_LINES = 5000;
const MAX_REPORT_CHECKPOINTS = 500;

const masking = createMasking();

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
  const chosen: string[] = [];
  for (const key of keys)
    if ((await opened.holdfast.resolve(`${parseKey(key).run}@${CHOSEN}`).catch(() => null)) !== null) chosen.push(key);
  return {
    rows,
    // Names of files are as they are; the CLI masks them where it prints.
    comparison: maskValue(comparisonJson(compared, null), masking.mask),
    choose: keys.map((key) => ({
      label: `Choose ${parseKey(key).run}`,
      action: { kind: "choose", run: key, others: keys.filter((other) => other !== key) },
      why: keys.length < 2 ? "There is no other run." : null,
    })),
    chosen,
    command: commandText(opened.named, ["compare", ...addresses]),
  };
}

/** Everything that a reader needs who cannot ask the server again. */
export async function readReport(
  opened: OpenRepository,
  run: string,
  params: { readonly changes: ChangesReader; readonly now: number; readonly findings: KnownFindings },
): Promise<Report> {
  const { changes: reader, now } = params;
  // The report may be sent to others: it does not say where the repository is.
  const page = { ...(await readRunPage(opened, run, params)), command: `holdfast status ${run}` };
  const timeline = await readTimeline(opened, run, now);
  const { checkpoints } = await readCheckpoints(opened, run, { before: null, limit: MAX_REPORT_CHECKPOINTS });
  const effects = await readEffects(opened, run);
  const handle = await opened.holdfast.run(run);
  const { checkpoint } = await handle.newestWhole();
  const base = await baseOf(opened, await handle.summary());
  const tree = checkpoint?.planes.files?.tree ?? null;
  if (base === null || tree === null) return { page, timeline, checkpoints, effects, files: null, patches: [] };
  const files = await reader.filesBetween(opened, base.tree, tree);
  const shown = firstFiles(files);
  const pair = { from: base.tree, to: tree, files: shown, all: shown.length === files.length };
  const patches = shown.length === 0 ? [] : await reader.patches(opened, pair);
  return { page, timeline, checkpoints, effects, files: files.map((file) => file.shown), patches };
}

/** In the order of the list, until the page is long enough. */
function firstFiles(files: readonly FoundFile[]): readonly FoundFile[] {
  let lines = 0;
  const end = files.findIndex(
    ({ shown: { added, removed } }) => (lines += (added ?? 0) + (removed ?? 0)) > MAX_REPORT_LINES,
  );
  return end === -1 ? files : files.slice(0, end);
}
