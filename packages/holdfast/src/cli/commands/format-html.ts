/** `format export --to html`: writes the report of a run as one self-contained page without scripts. */
import { createRequire } from "node:module";
import { existsSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import type { Report } from "@holdfast/dashboard/api";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { writeDurable } from "@holdfast/platform/files";
import type { Holdfast } from "../../holdfast.ts";
import { ChangesReader } from "../../ui/changes.ts";
import { OpenRepository, Repositories } from "../../ui/repositories.ts";
import { readReport } from "../../ui/report.ts";
import type { Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { escapeText } from "../output/text.ts";

/** The built program of the page that renders a report to text. It is next to the bundle, as the page is. */
interface ReportProgram {
  renderReport(report: Report): string;
}

export async function exportReport(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly address: string; readonly output: string | undefined; readonly dryRun: boolean },
): Promise<Exit> {
  if (params.address.includes("@"))
    throw usageError("--to html writes the story of a whole run", `Name the run: ${params.address.split("@")[0]}.`);
  const { id } = await holdfast.resolveRun(params.address);
  const { renderReport } = loadProgram();
  const now = Date.now();
  const { store } = holdfast;
  const key = basename(shell.cwd).replaceAll(/[^A-Za-z0-9._-]+/g, "-");
  const usedAt = new Date(now).toISOString();
  const named = { id: store.id, store: store.location, root: shell.cwd, usedAt, key, name: key };
  const repositories = new Repositories({ list: () => [named], now: () => now, waits: true });
  const opened = new OpenRepository(named, holdfast);
  const changes = new ChangesReader(repositories);
  const report = await readReport(opened, id, { changes, now, findings: () => [] }).finally(() => opened.closeLook());
  const document = renderReport(report);
  const path = params.output === undefined || params.dryRun ? null : resolve(shell.cwd, params.output);
  if (path !== null) writeDurable({ path, data: Buffer.from(document), mode: "replace" });
  const written = path === null ? [] : [path];
  const bytes = Buffer.byteLength(document);
  const printed = params.output === undefined && !params.dryRun ? document : null;
  shell.print({
    json: () => ({ run: id, to: "html", written, bytes, document: printed }),
    ...(printed === null ? {} : { content: true as const }),
    text: () =>
      printed ??
      (path === null ? `Would write ${escapeText(params.output ?? "stdout")}\n` : `Wrote ${escapeText(path)}\n`),
  });
  return "done";
}

function loadProgram(): ReportProgram {
  const path = join(import.meta.dirname, "report.cjs");
  if (existsSync(path)) return createRequire(import.meta.filename)(path) as ReportProgram;
  throw new HoldfastError({
    code: "UNSUPPORTED",
    message: "This program was built without its page, so it cannot write a report",
    hint: "Install the published package, or build the page first.",
  });
}
