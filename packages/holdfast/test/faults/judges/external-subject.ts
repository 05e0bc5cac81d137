import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { openHoldfast } from "../../../src/open.ts";
import type { ImportPlan } from "../../../src/interop/import.ts";
import { validateFiles } from "../../../src/interop/read-files.ts";
import type { Subject } from "../harness/subject.ts";
import { writerCommand } from "../harness/writer.ts";

const GOLDEN = join(import.meta.dirname, "../../../../formats/golden/crunch-yaml");
/** Three checkpoints of one issue, of three times. */
const TIMES = ["2025-01-14T10:00:00Z", "2025-01-14T11:00:00Z", "2025-01-14T12:00:00Z"];
/** Crunch keeps two of them; what was there before goes. */
const CONFIG = "checkpoint: {retention: {manual: 2}, storage: {location: cp, compress: true}}\n";

/**
 * An import, killed anywhere, leaves nothing, a part that refuses to be resumed, or everything. The same import again
 * completes it, once.
 */
export function importSubject(): Subject {
  return {
    async prepare(root) {
      writeTheirs(root);
      return [];
    },
    command: (root) => writerCommand("external-writer", root, "import"),
    judge:
      () =>
      async ({ root, printed }) => {
        const problems: string[] = [];
        const before = await lookAtImport(root);
        if (printed.length > 0 && before.kind !== "whole")
          problems.push(`LOST: it was acknowledged and is ${before.kind}`);
        if (before.kind === "part" && before.refusal !== "NEEDS_DECISION")
          problems.push(`a part of an import was not refused: ${before.refusal}`);
        const [file = "", ...args] = await writerCommand("external-writer", root, "import");
        execFileSync(file, args, { encoding: "utf8" });
        const after = await lookAtImport(root);
        if (after.kind !== "whole") problems.push(`RESUME: the same import again leaves it ${after.kind}`);
        problems.push(...after.problems);
        return problems;
      },
  };
}

/** A mirror, killed anywhere: every file is whole, `latest` leads to one, and the same mirror again makes it what it would have been. */
export function mirrorSubject(): Subject {
  let wanted: ReadonlyMap<string, string> | undefined;
  return {
    async prepare(root) {
      writeTheirs(root);
      const [file = "", ...args] = await writerCommand("external-writer", root, "import");
      execFileSync(file, args);
      mkdirSync(join(root, "crunch/.claude"), { recursive: true });
      writeFileSync(join(root, "crunch/.claude/checkpoint-config.yaml"), CONFIG);
      // Written before there was a rule: all three, of which one has to go.
      mkdirSync(join(root, "crunch/cp"));
      for (const name of readdirSync(join(root, "theirs")))
        cpSync(join(root, "theirs", name), join(root, "crunch/cp", name));
      return [];
    },
    command: (root) => writerCommand("external-writer", root, "mirror"),
    judge:
      () =>
      async ({ root, printed }) => {
        const problems = [...wholeFiles(root), ...latestOf(root)];
        const left = printed.some((line) => line.includes("crunch-yaml")) ? contentOf(join(root, "crunch/cp")) : null;
        const [file = "", ...args] = await writerCommand("external-writer", root, "mirror");
        execFileSync(file, args);
        const after = new Map([...contentOf(join(root, "crunch/cp")), ...contentOf(join(root, "loops"))]);
        if (left !== null && !sameContent(left, contentOf(join(root, "crunch/cp"))))
          problems.push("LOST: what was acknowledged was written again otherwise");
        if (wanted !== undefined && !sameContent(after, wanted))
          problems.push(`RESUME: ${[...after.keys()].join(" ")} instead of ${[...wanted.keys()].join(" ")}`);
        wanted ??= after;
        return problems;
      },
  };
}

function writeTheirs(root: string): void {
  const text = readFileSync(join(GOLDEN, "CP-enrich-20250114-b4c5.yaml"), "utf8");
  mkdirSync(join(root, "theirs"));
  for (const [at, time] of TIMES.entries()) {
    const id = `CP-enrich-${at + 1}`;
    const one = text
      .replace(/^checkpoint_id: .*$/m, `checkpoint_id: ${id}`)
      .replace(/^trigger: .*$/m, "trigger: manual")
      .replace(/^created_at: .*$/m, `created_at: ${JSON.stringify(time)}`);
    writeFileSync(join(root, "theirs", `${id}.yaml`), one);
  }
}

async function lookAtImport(root: string): Promise<{
  readonly kind: ImportPlan["before"];
  readonly refusal: string;
  readonly problems: readonly string[];
}> {
  const none = { kind: "none", refusal: "", problems: [] } as const;
  if (!existsSync(join(root, "store/store.db"))) return none;
  const holdfast = await openHoldfast({ cwd: root, store: join(root, "store") });
  try {
    const problems: string[] = [];
    const runs = await holdfast.store.listRuns();
    const [run] = runs;
    if (run === undefined) return none;
    if (runs.length > 1) problems.push(`DOUBLED: there are ${runs.length} runs`);
    for await (const event of holdfast.verify())
      if (event.kind === "problem") problems.push(`${event.problem.code} ${event.problem.what}`);
    const [plan] = await holdfast.formats.planImport({ paths: ["theirs"] });
    const refusal = await holdfast.resume({ run: run.id }).then(
      () => "none",
      (error: unknown) => String(Reflect.get(Object(error), "code")),
    );
    const names = (await holdfast.store.listCheckpoints({ run: run.id, limit: 10 })).map(({ name }) => name);
    if (plan?.before === "whole" && names.join() !== "CP-enrich-3,CP-enrich-2,CP-enrich-1")
      problems.push(`LOST: it counts as whole and has ${names.join()}`);
    return { kind: plan?.before ?? "none", refusal, problems };
  } finally {
    await holdfast.close();
  }
}

/** Every file with a name that other tools read is valid for them. */
function wholeFiles(root: string): readonly string[] {
  return ["crunch/cp", "loops"]
    .filter((path) => existsSync(join(root, path)))
    .flatMap((path) => (path === "loops" && !existsSync(join(root, "loops/.aiwg")) ? [] : [path]))
    .flatMap((path) => validateFiles({ paths: [path], cwd: root }))
    .flatMap(({ ok, file, message, code }) => (ok || code === "FORMAT_UNKNOWN" ? [] : [`TORN: ${file}: ${message}`]));
}

function latestOf(root: string): readonly string[] {
  const latest = join(root, "crunch/cp/latest");
  const stat = lstatSync(latest, { throwIfNoEntry: false });
  if (stat?.isSymbolicLink() !== true) return [];
  return existsSync(join(root, "crunch/cp", readlinkSync(latest))) ? [] : ["TORN: latest leads nowhere"];
}

/** Only names that other tools read; files that a killed process left under a hidden name are excluded. */
function contentOf(directory: string): ReadonlyMap<string, string> {
  if (!existsSync(directory)) return new Map();
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory() && !entry.name.startsWith(".tmp-"))
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
  return new Map(
    entries.map((path) => [
      path.slice(directory.length + 1),
      lstatSync(path).isSymbolicLink() ? `-> ${readlinkSync(path)}` : readFileSync(path).toString("base64"),
    ]),
  );
}

function sameContent(one: ReadonlyMap<string, string>, other: ReadonlyMap<string, string>): boolean {
  return JSON.stringify([...one]) === JSON.stringify([...other]);
}
