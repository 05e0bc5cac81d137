/** The `verify` command: recomputes every digest and reports damage. */
import type { Problem, VerifyEvent } from "@holdfast/core/store";
import type { Repaired } from "@holdfast/core/verify";
import type { Holdfast } from "../../holdfast.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { type Page, paint } from "../output/page.ts";
import { countText } from "../output/quantities.ts";
import { escapeText, wrap } from "../output/text.ts";

export const spec = {
  name: "verify",
  summary: "find out whether stored data is damaged",
  details: [
    "Recomputes every digest of the store and of the git objects of its checkpoints. Changes nothing without --quarantine. Exit status 6 if something is damaged.",
    "With a store that several machines share, the files of a run can be on another machine only. That is no damage: the command names these runs, and `holdfast store fetch` gets their files.",
  ],
  operands: [{ name: "RUN", about: "only this run", required: false, completes: "run" }],
  consent: "reads",
  flags: {
    quarantine: {
      type: "boolean",
      about:
        "mark damaged checkpoints so that no run resumes from them, and restore missing git refs; nothing is deleted",
    },
    "dry-run": { type: "boolean", about: "with --quarantine: show what would be marked, and mark nothing" },
  },
  examples: [
    { line: "holdfast verify", about: "verify every run" },
    { line: "holdfast verify fix-login --quarantine", about: "verify one run, and quarantine damaged checkpoints" },
    { line: "holdfast verify --quarantine --dry-run", about: "show what would be quarantined" },
  ],
  reads: true,
  json: '{"ok": true | false, "summary": {...}, "problems": [...], "absent": [{"run", "checkpoints": how many have no files here}], "repaired": [{"run", "quarantined", "pinned", "newestIntact"}]}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const address = input.operand(0);
  const holdfast = await shell.open({ create: false, writes: input.on("quarantine") && !input.on("dry-run") });
  const only = address === undefined ? undefined : (await holdfast.resolveRun(address)).id;
  const events = await readEvents(shell, holdfast, only);
  const problems = events.flatMap((event) => (event.kind === "problem" ? [event.problem] : []));
  const absent = events.flatMap((event) =>
    event.kind === "absent" ? [{ run: event.run, checkpoints: event.checkpoints }] : [],
  );
  const summary = events.find((event) => event.kind === "summary") ?? null;
  const ok = problems.length === 0 && summary?.ok === true;
  // The journals of removed runs stay and are verified. Damage may hide runs from the list, so nothing is derived then.
  const listed = ok && only === undefined ? (await holdfast.listRuns()).length : null;
  const act = input.on("quarantine") && !input.on("dry-run") && !ok;
  const repaired = act ? await repair(shell, holdfast, events) : [];
  shell.print({
    json: () => ({ ok, summary, problems, absent, repaired }),
    text: (page) =>
      verifyText({ ok, summary, problems, absent, listed }, page) +
      repairText({ repaired, problems, asked: input.on("quarantine"), act }),
  });
  if (!ok && !input.on("quarantine"))
    shell.notify(`Quarantine damaged checkpoints (nothing is deleted): ${shell.talk.program} verify --quarantine`);
  return ok ? "done" : "corrupt";
}

async function repair(shell: Shell, holdfast: Holdfast, events: readonly VerifyEvent[]): Promise<readonly Repaired[]> {
  return await shell.finish(holdfast.repair(events), {
    done: (repaired) => (repaired.length === 0 ? null : "damaged checkpoints were quarantined"),
  });
}

async function readEvents(shell: Shell, holdfast: Holdfast, run: string | undefined): Promise<readonly VerifyEvent[]> {
  const progress = shell.progress();
  const events: VerifyEvent[] = [];
  let problems = 0;
  try {
    for await (const event of holdfast.verify({ signal: shell.signal, ...(run === undefined ? {} : { run }) })) {
      if (event.kind === "problem") problems += 1;
      if (event.kind === "progress")
        progress.update(`Verifying ${event.run}: ${event.checked} checked, ${problems} damaged`);
      else events.push(event);
    }
  } finally {
    progress.done();
  }
  return events;
}

interface Verified {
  readonly ok: boolean;
  readonly summary: Extract<VerifyEvent, { readonly kind: "summary" }> | null;
  readonly problems: readonly Problem[];
  /** Runs of a shared store with checkpoints whose files are not on this machine. */
  readonly absent: readonly { readonly run: string; readonly checkpoints: number }[];
  /** How many of the verified runs `list` shows; null: not known. The others were removed. */
  readonly listed: number | null;
}

export function verifyText(verified: Verified, page: Page): string {
  const { summary, listed } = verified;
  const removed = summary === null || listed === null ? 0 : Math.max(0, summary.runs - listed);
  const read =
    summary === null
      ? "the check did not finish"
      : [
          countText(summary.runs - removed, "run"),
          ...(removed === 0 ? [] : [countText(removed, "removed run")]),
          countText(summary.entries, "journal entry", "journal entries"),
          countText(summary.checkpoints, "checkpoint"),
          ...(summary.chunks === 0 ? [] : [countText(summary.chunks, "chunk")]),
        ].join(", ");
  const verdict = verified.ok ? paint(page, "green", "Intact") : paint(page, "red", "Damaged");
  const found = verified.ok ? "" : `${countText(verified.problems.length, "problem")} in `;
  const problems = verified.problems.map((problem) => problemText(problem, page)).join("");
  return `${verdict}: ${found}${read}.\n${problems}${absentText(verified, page)}`;
}

function absentText({ absent }: Pick<Verified, "absent">, page: Page): string {
  if (absent.length === 0) return "";
  const width = Number.isFinite(page.width) ? page.width : 1000;
  const text = absent.flatMap(({ run, checkpoints }) =>
    wrap(
      `The files of ${countText(checkpoints, "checkpoint")} of ${run} are not here: \`holdfast store fetch ${run}\``,
      width,
    ),
  );
  return `\n${text.map(escapeText).join("\n")}\n`;
}

function problemText(problem: Problem, page: Page): string {
  const place =
    problem.run === null ? "store" : problem.sequence === null ? problem.run : `${problem.run}@${problem.sequence}`;
  const entry = problem.entry === null ? "" : ` (entry ${problem.entry})`;
  const width = Number.isFinite(page.width) ? page.width - 4 : 1000;
  const lines = wrap(`${problem.code}${entry}: ${problem.what}`, width).map((line) => `    ${escapeText(line)}`);
  const trusted = [
    ...(problem.trustedTo === null ? [] : [`journal valid up to entry ${problem.trustedTo}`]),
    ...(problem.newestIntact === null ? [] : [`newest intact checkpoint ${problem.run ?? ""}@${problem.newestIntact}`]),
  ];
  const tail = trusted.length === 0 ? [] : [`    ${trusted.join("; ")}`];
  return `\n  ${paint(page, "red", escapeText(place))}\n${[...lines, ...tail].join("\n")}\n`;
}

interface Repairing {
  readonly repaired: readonly Repaired[];
  readonly problems: readonly Problem[];
  readonly asked: boolean;
  readonly act: boolean;
}

export function repairText(params: Repairing): string {
  if (params.problems.length === 0 || !params.asked) return "";
  if (!params.act) {
    const marked = params.problems.flatMap(({ run, sequence }) =>
      run === null || sequence === null ? [] : [`${run}@${sequence}`],
    );
    return `\nWould quarantine or pin again: ${marked.length === 0 ? "nothing" : marked.map(escapeText).join(", ")}\n`;
  }
  return params.repaired.map(repairedText).join("");
}

function repairedText({ run, quarantined, pinned, newestIntact }: Repaired): string {
  const name = (sequence: number): string => `${escapeText(run)}@${sequence}`;
  const whole = newestIntact === null ? "no intact checkpoint is left" : `newest intact: ${name(newestIntact)}`;
  return [
    ...(quarantined.length === 0 ? [] : [`\nQuarantined ${quarantined.map(name).join(", ")}; ${whole}\n`]),
    ...(pinned.length === 0 ? [] : [`\nPinned again ${pinned.map(name).join(", ")}\n`]),
  ].join("");
}
