/** The `doctor` command: checks this machine, the repository, the store and the config. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { splitAgent } from "@holdfast/core/agent";
import { systemClock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import { findProgram } from "@holdfast/platform/subprocess";
import { byteText } from "@holdfast/core/store-size";
import { findRepositoryRoot, loadConfig } from "../../config/load-config.ts";
import type { WorkSettings } from "../../config/work-settings.ts";
import type { CheckLevel, DoctorReport } from "../../diagnosis.ts";
import { firstProgram } from "../../observe-start.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { type Page, type Style, paint } from "../output/page.ts";
import { countText } from "../output/quantities.ts";
import { RUN_COLUMN } from "../output/run-text.ts";
import { type Cell, renderTable } from "../output/table.ts";
import { escapeText, padEnd, wrap } from "../output/text.ts";
import { repeatFlags } from "../shell.ts";

export const spec = {
  name: "doctor",
  summary: "find out why something does not work",
  details: [
    "Checks this machine, the repository, the store and the config. Each check passes, warns, fails or names what is missing, with the remedy below it. Exit status 1 if a check fails.",
  ],
  operands: [],
  consent: "reads",
  flags: {},
  examples: [
    { line: "holdfast doctor", about: "run all checks" },
    { line: "holdfast doctor --store ../store", about: "check another store" },
    { line: "holdfast doctor --json", about: "the checks as data" },
  ],
  reads: true,
  json: '{"ok": true | false, "checks": [{"name", "level": "ok" | "missing" | "warn" | "fail", "detail", "fix"}], "usage": [{"run", "checkpoints", "bytes"}]}.',
} as const satisfies CommandSpec;

type Check = DoctorReport["checks"][number];

export async function run(shell: Shell, _input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const { checks: config, own } = await checkConfig(shell);
  const named = await checkNamedStore(shell);
  const { checks: found, usage } = await shell.doctor();
  const names = (await shell.commands()).map(({ spec }) => spec.name);
  const others = found
    .filter(({ name }) => name !== "agents" || own === null)
    .map((check) => (check.name === "store" ? (named ?? check) : check));
  const checks = [...config, ...others, ...(own === null ? [] : [own])].map((check) => ({
    ...check,
    fix: check.fix === null ? null : repeatFlags(check.fix, shell.talk.program, names),
  }));
  const ok = checks.every(({ level }) => level !== "fail");
  shell.print({ json: () => ({ ok, checks, usage }), text: (page) => doctorText({ ok, checks, usage }, page) });
  return ok ? "done" : "failed";
}

interface ConfigChecks {
  /** The config file; if it limits money, also the prices of the agents that it names. */
  readonly checks: readonly Check[];
  /** The program of the user that the config names as the agent; null: it names none. */
  readonly own: Check | null;
}

async function checkConfig(shell: Shell): Promise<ConfigChecks> {
  const loaded = await loadConfig({
    cwd: shell.cwd,
    env: shell.env,
    storeFlag: undefined,
    allows: shell.consent.isTrusted,
  });
  await shell.consent.items();
  if (!loaded.ok) {
    const count = loaded.problems.length;
    const detail = `${loaded.path}: ${count === 1 ? "1 problem" : `${count} problems`}; the other checks used defaults`;
    return { checks: [{ name: "config", level: "fail", detail, fix: "holdfast config check" }], own: null };
  }
  const { path, settings } = loaded.config;
  const waiting = loaded.consents.filter((item) => !shell.consent.isTrusted(item)).length;
  const needs = waiting === 1 ? "1 setting needs" : `${waiting} settings need`;
  const config: Check =
    waiting > 0
      ? { name: "config", level: "ok", detail: `${path ?? ""}: ${needs} your consent`, fix: "holdfast trust" }
      : { name: "config", level: "ok", detail: path ?? "no file; defaults are in force", fix: null };
  return { checks: [config, ...(await checkPrices(settings.work))], own: checkOwnAgent(shell, settings.work) };
}

/** A `command` agent needs no agent CLI. Only a program that can be found without starting a shell is judged. */
function checkOwnAgent({ cwd }: Shell, work: WorkSettings): Check | null {
  const name = work.models.impl ?? work.agent;
  if (name === null) return null;
  const { provider, model } = splitAgent(name);
  if (provider !== "command" || model === null) return null;
  const program = firstProgram(model);
  const isFound =
    program === null ||
    (program.includes("/")
      ? // A run starts it at the root of its worktree.
        existsSync(resolve(findRepositoryRoot(cwd) ?? cwd, program))
      : findProgram(program) !== undefined);
  if (isFound) return { name: "agents", level: "ok", detail: `the config names ${name}`, fix: null };
  const detail = `the config names ${name}, and ${program} does not exist`;
  return { name: "agents", level: "warn", detail, fix: "Correct `agent` in the config; see docs/agents.md." };
}

async function checkPrices(work: WorkSettings): Promise<readonly Check[]> {
  if (work.budget.microUsd === null) return [];
  const { createAgentRegistry } = await import("@holdfast/agents/registry");
  const { DEFAULT_PRICES, PRICES_CHECKED } = await import("@holdfast/agents/prices");
  const { priceHint, unpricedAgents } = await import("../../adapters.ts");
  const { agent } = createAgentRegistry({ clock: systemClock, directory: "." });
  const named = [work.agent, work.models.impl, work.models.review].flatMap((name) => name ?? []);
  const prices = { ...DEFAULT_PRICES, ...work.prices };
  const unknown = unpricedAgents({ agent, errorPolicy: work.errors, prices }, named);
  if (unknown[0] === undefined) {
    const detail = `known for the agents of the config; built-in prices are of ${PRICES_CHECKED}`;
    return [{ name: "prices", level: "ok", detail, fix: null }];
  }
  const detail = `budget.maxCost cannot be kept: the price of ${unknown.join(", ")} is unknown`;
  return [{ name: "prices", level: "warn", detail, fix: priceHint(unknown[0]) }];
}

/** A missing default store is normal. A missing store that the user named is a mistake. */
async function checkNamedStore(shell: Shell): Promise<Check | null> {
  try {
    await shell.open({ create: false });
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "STORE_ABSENT" && error.data["named"] === true)
      return { name: "store", level: "fail", detail: error.message, fix: error.hint ?? null };
  }
  return null;
}

export function doctorText(report: DoctorReport, page: Page): string {
  const name = Math.max(0, ...report.checks.map((check) => check.name.length));
  const label = Math.max(4, ...report.checks.map((check) => check.level.length));
  const left = label + 2 + name + 2;
  const room = Number.isFinite(page.width) ? Math.max(20, page.width - left) : 1000;
  const lines = report.checks.flatMap((check) => {
    const [first = "", ...more] = wrap(escapeText(check.detail), room);
    const fix = check.fix === null ? [] : wrap(`fix: ${escapeText(check.fix)}`, room);
    const level = paint(page, STYLES[check.level], padEnd(check.level, label));
    return [
      `${level}  ${padEnd(escapeText(check.name), name)}  ${first}`,
      ...[...more, ...fix].map((line) => " ".repeat(left) + line),
    ];
  });
  const usage = report.usage.length === 0 ? "" : `${usageText(report.usage, page)}\n`;
  return `${lines.join("\n")}\n\n${usage}${verdict(report, page)}\n`;
}

/** Space in the store by run, the largest first. */
export function usageText(usage: DoctorReport["usage"], page: Page): string {
  const columns = [RUN_COLUMN, { title: "CHECKPOINTS", align: "right" }, { title: "USES", align: "right" }] as const;
  const rows = usage.map(({ run, checkpoints, bytes }): readonly Cell[] => [
    { text: run },
    { text: String(checkpoints) },
    { text: byteText(bytes) },
  ]);
  return `Space in the store by run, before compression\n${renderTable({ columns, rows }, page)}`;
}

const STYLES: Readonly<Record<CheckLevel, Style>> = { ok: "green", missing: "dim", warn: "yellow", fail: "red" };

function verdict(report: DoctorReport, page: Page): string {
  const count = (level: CheckLevel): number => report.checks.filter((check) => check.level === level).length;
  if (!report.ok) return paint(page, "red", `${count("fail")} failed, ${countText(count("warn"), "warning")}.`);
  return count("warn") > 0
    ? paint(page, "yellow", `No failures, ${countText(count("warn"), "warning")}.`)
    : paint(page, "green", "All checks passed.");
}
