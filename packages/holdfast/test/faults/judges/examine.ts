import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { scratchFolder } from "../harness/scratch.ts";
import { writerCommand } from "../harness/writer.ts";
import type { Damage } from "../writers/damage.ts";
import type { Examined } from "../writers/examine-store.ts";

const PATIENCE_MS = 300_000;

/** Damages copies of a store, one after the other, and returns what each reports; "hung" if it reports nothing. */
export async function examineAll(
  pristine: string,
  damages: readonly Damage[],
): Promise<readonly (Examined | { readonly kind: "hung" })[]> {
  const results: (Examined | { readonly kind: "hung" })[] = [];
  const folder = scratchFolder("damage");
  while (results.length < damages.length) {
    const rest = damages.slice(results.length);
    writeFileSync(join(folder, "plan"), JSON.stringify(rest));
    const answers = await examineUntilHung(pristine, folder);
    results.push(...answers);
    if (answers.length < rest.length) results.push({ kind: "hung" });
  }
  return results;
}

async function examineUntilHung(pristine: string, folder: string): Promise<readonly Examined[]> {
  const [file = "", ...args] = await writerCommand(
    "examine-store",
    pristine,
    join(folder, "store"),
    join(folder, "plan"),
  );
  const child = spawn(file, args, { stdio: ["ignore", "pipe", "inherit"] });
  const answers: Examined[] = [];
  const timer = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
  const lines = createInterface({ input: child.stdout });
  lines.on("line", (line) => {
    timer.refresh();
    answers.push(JSON.parse(line));
  });
  await new Promise((resolve) => child.on("close", resolve));
  clearTimeout(timer);
  return answers;
}
