import type { DoctorReport } from "../../../app.ts";
import { loadConfig } from "../../../config/load-config.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { repeatFlags } from "../../suggested-program.ts";
import { doctorText } from "./view.ts";
import type { doctorSpec } from "./spec.ts";

type Check = DoctorReport["checks"][number];

export async function run(shell: Shell, _input: Input<(typeof doctorSpec)["flags"]>): Promise<Exit> {
  const config = await checkConfig(shell);
  const named = await checkNamedStore(shell);
  const { checks: found, usage } = await shell.doctor();
  const names = shell.commands.map(({ spec }) => spec.name);
  const checks = [config, ...found.map((check) => (check.name === "store" ? (named ?? check) : check))].map(
    (check) => ({
      ...check,
      fix: check.fix === null ? null : repeatFlags(check.fix, shell.talk.program, names),
    }),
  );
  const ok = checks.every(({ level }) => level !== "fail");
  shell.print({ json: () => ({ ok, checks, usage }), text: (page) => doctorText({ ok, checks, usage }, page) });
  return ok ? "done" : "failed";
}

async function checkConfig(shell: Shell): Promise<Check> {
  const loaded = await loadConfig({
    cwd: shell.cwd,
    env: shell.env,
    storeFlag: undefined,
    allows: shell.consent.isTrusted,
  });
  await shell.consent.items();
  const waiting = loaded.consents.filter((item) => !shell.consent.isTrusted(item)).length;
  if (loaded.ok && waiting > 0) {
    const settings = waiting === 1 ? "1 setting needs" : `${waiting} settings need`;
    const detail = `${loaded.config.path ?? ""}: ${settings} your consent before they are used`;
    return { name: "config", level: "ok", detail, fix: "holdfast trust" };
  }
  if (loaded.ok)
    return { name: "config", level: "ok", detail: loaded.config.path ?? "no file; defaults are in force", fix: null };
  const count = loaded.problems.length;
  return {
    name: "config",
    level: "fail",
    detail: `${loaded.path}: ${count === 1 ? "1 problem" : `${count} problems`}; the rest was checked with defaults`,
    fix: "holdfast config check",
  };
}

/** "None yet" is fine where nobody named one; a store that was named and is not there is a slip. */
async function checkNamedStore(shell: Shell): Promise<Check | null> {
  try {
    await shell.open({ create: false });
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "STORE_ABSENT" && error.data["named"] === true)
      return { name: "store", level: "fail", detail: error.message, fix: error.hint ?? null };
  }
  return null;
}
