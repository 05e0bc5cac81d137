import type { Holdfast, ImportPlan } from "../../../app.ts";
import { FORMAT_NAMES } from "../../../core/format-names.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import { checkNewRunId } from "../../check-run-id.ts";
import type { Input, Shell } from "../../command.ts";
import { escapeText } from "../../output/escape-text.ts";
import type { Page } from "../../output/page.ts";
import { runHeld } from "../../wait-for-run.ts";
import type { importSpec } from "./spec.ts";
import { importDocument, importText } from "./view.ts";

type Format = (typeof FORMAT_NAMES)[number];

export async function run(shell: Shell, input: Input<(typeof importSpec)["flags"]>): Promise<Exit> {
  const id = input.text("run");
  checkNewRunId(id);
  const dryRun = input.on("dry-run");
  const holdfast = await shell.open(dryRun ? { create: false, pretend: true, writes: false } : { create: true });
  const named = FORMAT_NAMES.find((name) => name === input.text("format"));
  const plans = await planOrAsk(shell, holdfast, { paths: input.operands, named, id });
  // Of several, a line each: what was imported is told also when a later one fails.
  const show = (document: object, text: (page: Page) => string): void => {
    if (shell.json && plans.length > 1) shell.write(`${JSON.stringify(document)}\n`);
    else shell.print({ json: () => document, text });
  };
  for (const plan of plans) {
    if (dryRun) {
      show(importDocument(plan), (page) => importText(plan, "plan", page));
      continue;
    }
    const report = await shell.finish(apply(holdfast, plan), {
      done: ({ run, changed }) => (changed ? `run ${run} was imported` : null),
    });
    show({ ...importDocument(plan), changed: report.changed }, (page) =>
      importText(plan, report.changed ? "done" : "same", page),
    );
  }
  const [only] = plans;
  if (dryRun || only === undefined) return "done";
  const { program } = shell.talk;
  const run = plans.length === 1 ? only.run : "RUN";
  shell.say(`See it with: ${program} show ${run}. Go on with: ${program} resume ${run}`);
  return "done";
}

async function apply(
  holdfast: Holdfast,
  plan: ImportPlan,
): Promise<{ readonly run: string; readonly changed: boolean }> {
  try {
    return await holdfast.foreign.applyImport(plan);
  } catch (error) {
    throw runHeld(error);
  }
}

/** Where several formats may be meant, each is offered in turn; whoever cannot be asked gets the error. */
async function planOrAsk(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly paths: readonly string[]; readonly named: Format | undefined; readonly id: string | undefined },
): Promise<readonly ImportPlan[]> {
  const plan = (format: Format | undefined): Promise<readonly ImportPlan[]> =>
    holdfast.foreign.planImport({
      paths: params.paths,
      cwd: shell.cwd,
      ...(format === undefined ? {} : { format }),
      ...(params.id === undefined ? {} : { run: params.id }),
    });
  try {
    return await plan(params.named);
  } catch (error) {
    for (const claim of claimsOf(error)) {
      const answer = await shell.confirm(`${escapeText(String(error))}. Read it as ${claim}?`);
      if (answer === "yes") return await plan(claim);
      if (answer === "cannot_ask") break;
    }
    throw error;
  }
}

function claimsOf(error: unknown): readonly Format[] {
  if (!(error instanceof HoldfastError) || error.code !== "FORMAT_UNKNOWN" || error.data["several"] !== true) return [];
  const claims: readonly unknown[] = Array.isArray(error.data["claims"]) ? error.data["claims"] : [];
  return FORMAT_NAMES.filter((name) =>
    claims.some((claim) => typeof claim === "object" && claim !== null && "format" in claim && claim.format === name),
  );
}
