import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { validateFiles } from "../../../src/interop/read-files.ts";
import { DIRECTORY, LOOP } from "../../ralph-layout/loop-run.ts";
import type { Subject } from "../harness/subject.ts";
import { writerCommand } from "../harness/writer.ts";

/**
 * The layout of a loop, killed anywhere: every file is whole, a reader finds a checkpoint at every moment, and the same again makes it what it
 * would have been.
 */
export function loopSubject(): Subject {
  let wanted: string | undefined;
  const act = async (root: string, plan: string): Promise<void> => {
    const [file = "", ...args] = await writerCommand("loop-writer", root, plan);
    execFileSync(file, args);
  };
  return {
    async prepare(root) {
      await act(root, "begin");
      return [];
    },
    command: (root) => writerCommand("loop-writer", root, "mirror"),
    judge:
      () =>
      async ({ root, printed }) => {
        const problems = [...torn(root), ...newest(root)];
        const left = printed.some((line) => line.includes("cleaned up")) ? contentOf(root) : null;
        await act(root, "mirror");
        const after = contentOf(root);
        problems.push(...torn(root), ...newest(root));
        if (left !== null && left !== after) problems.push("LOST: what was acknowledged was written again otherwise");
        wanted ??= after;
        if (after !== wanted) problems.push(`RESUME: ${namesOf(after)} instead of ${namesOf(wanted)}`);
        return problems;
      },
  };
}

function torn(root: string): readonly string[] {
  const rows = validateFiles({ paths: [".aiwg"], cwd: root });
  const documents = [
    "ralph/registry.json",
    `ralph/loops/${LOOP}/state.json`,
    `ralph/loops/${LOOP}/reflection-memory.json`,
  ];
  return [
    ...rows.flatMap(({ ok, file, message }) => (ok ? [] : [`TORN: ${file}: ${message}`])),
    ...documents.flatMap((path) => {
      try {
        JSON.parse(readFileSync(join(root, ".aiwg", path), "utf8"));
        return [];
      } catch (error) {
        return [`TORN: ${path}: ${String(error)}`];
      }
    }),
  ];
}

/** It had some before: at no moment is there none. */
function newest(root: string): readonly string[] {
  const files = readdirSync(join(root, DIRECTORY)).filter((name) => name.startsWith("iteration-"));
  return files.length === 0 ? ["LOST: no iteration is there to be read"] : [];
}

/** Only names that other tools read; files that a killed process left under a hidden name are excluded. */
function contentOf(root: string): string {
  const files = readdirSync(join(root, ".aiwg"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.startsWith(".tmp-"))
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
  return JSON.stringify(files.map((path) => [path.slice(root.length), readFileSync(path).toString("base64")]));
}

function namesOf(content: string): string {
  const files: readonly (readonly [string, string])[] = JSON.parse(content);
  return files.map(([path]) => path.split("/").at(-1)).join(" ");
}
