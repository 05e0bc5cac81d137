import { parseDocument } from "yaml";
import * as z from "zod/mini";
import { damagedFile, readForgeFile } from "./forge-file.ts";
import type { ForgePlace } from "./forge-place.ts";

const SETTINGS = z.strictObject({
  /** Shell command that checks a commit, run in a checkout of it. */
  ci: z.optional(z.string().check(z.minLength(1))),
  ciTimeoutMinutes: z.optional(z.number().check(z.positive())),
});

/** `forge.yaml`, read each time it is asked for: people change it while runs are under way. */
export function readForgeSettings(place: ForgePlace): z.infer<typeof SETTINGS> {
  const file = readForgeFile(place, FILE);
  if (file === undefined) return {};
  const document = parseDocument(file.text);
  const [error] = document.errors;
  if (error !== undefined) throw damagedFile(place, FILE, error.message.split("\n")[0] ?? "");
  const parsed = SETTINGS.safeParse(document.toJS() ?? {});
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue === undefined || issue.path.length === 0 ? "" : `${issue.path.map(String).join(".")}: `;
  throw damagedFile(place, FILE, `${where}${issue?.message ?? "it does not fit"}`);
}

const FILE = "forge.yaml";
