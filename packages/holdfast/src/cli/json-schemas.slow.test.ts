import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openSqliteStore } from "@holdfast/core/store-sql/open";
import { GOOD, workSuite, workflowSource } from "@holdfast/test-support/cli-repositories";
import { loadCommands } from "./command-table.ts";
import { JSON_SCHEMAS } from "./json-schemas.ts";

const work = workSuite();

const ASKING = `import { defineWorkflow } from "holdfast";
export default defineWorkflow({
  name: "asking",
  initial: "ask",
  stages: {
    ask: async (context) => {
      const answer = await context.decide({ name: "go", question: "Continue?", options: ["yes", "no"] });
      return { event: answer, reason: "you said " + answer };
    },
  },
  transitions: { ask: { yes: "done", no: "fatal" } },
  ends: { done: "done", fatal: "failed" },
  initialState: () => ({}),
});
`;

/** Command lines that succeed one after the other in a prepared repository, with the exit status if it is not 0. */
function lines(agent: string): readonly (readonly [line: string, status?: number])[] {
  return [
    [`run 1 --no-review --mode logged --agent ${agent}`],
    [`run --task Other --agent ${agent} --dry-run`],
    ["run --task Ask --workflow asking.ts", 4],
    ["approve", 4],
    ["status"],
    ["status 1"],
    ["approve ask yes --by ann"],
    ["resume ask --dry-run"],
    ["resume ask"],
    ["resume 1"],
    ["stop 1"],
    ["list"],
    ["list --status done --workflow impl"],
    ["list --all-repositories"],
    ["ui --no-open"],
    ["list issue-1"],
    ["show issue-1"],
    ["show issue-1@latest"],
    ["events issue-1"],
    ["output issue-1"],
    ["find holdfast/issue-1"],
    ["diff issue-1@1 issue-1@latest"],
    ["undo issue-1"],
    ["undo issue-1 push --dry-run"],
    ["checkpoint --run mine --name first"],
    ["checkpoint --run mine --name second"],
    ["checkpoint --run mine --dry-run"],
    ["take mine --dry-run"],
    ["take mine --yes"],
    ["tag mine@1 good"],
    ["tag mine"],
    ["rm mine@1 --force --dry-run"],
    ["rm mine --dry-run"],
    ["rm --done --older-than 1d"],
    ["restore mine@1 --dry-run"],
    ["restore mine@1 --yes"],
    ["fork issue-1@1 --as other --no-worktree"],
    ["fork issue-1@1 --as another --dry-run"],
    ["compare issue-1 other"],
    ["cherry-pick issue-1@latest --into mine --dry-run -- answer.txt"],
    ["replay issue-1"],
    ["rerun issue-1 --dry-run"],
    ["rerun issue-1", 4],
    ["format export issue-1 --to impl-json --output out.json"],
    ["format export issue-1 --to run --output issue-1.run"],
    ["format import issue-1.run --dry-run"],
    ["format validate out.json"],
    ["format convert out.json --to impl-json"],
    ["format import out.json --run theirs"],
    ["format import out.json --run theirs --dry-run"],
    ["format mirror issue-1 --to impl-json --once --directory there"],
    ["format schema"],
    ["format schema loop-json"],
    ["setup --dry-run"],
    ["setup --defaults"],
    ["config"],
    ["config --prompts"],
    ["config check"],
    ["agents"],
    ["trust"],
    ["doctor"],
    ["verify"],
    ["gc --dry-run"],
    ["gc --yes --force"],
    ["store copy .git/holdfast copied --dry-run"],
    ["store copy .git/holdfast copied mine"],
    ["store push issue-1"],
    ["store fetch issue-1"],
    ["service install --dry-run"],
    ["service install"],
    ["service status"],
    ["worker --once --health 0"],
    ["submit --task Later --no-review --at 2100-01-01T00:00 --agent " + agent],
    ["queue"],
    ["status"],
    ["status issue-3"],
    ["workers"],
    ["queue --cancel issue-3"],
    ["service remove --repository ."],
    ["service remove"],
    ["completion bash"],
    ["help"],
    ["help list"],
    ["demo --seed 37"],
  ];
}

/** A process on another machine holds the run. Its handle is not closed before the end, because that would release the lease. */
async function holdElsewhere(clone: string): Promise<void> {
  const identity = { host: "elsewhere", pid: 1, started: "1", boot: "other" };
  const store = await openSqliteStore({ directory: join(clone, ".git/holdfast"), identity });
  onTestFinished(() => store.close());
  await store.takeLease({ run: "mine", label: "holdfast run mine" });
}

function documentsOf(stdout: string): readonly unknown[] {
  // One document is printed with indents; a stream prints one document per line.
  return stdout.startsWith("{\n")
    ? [JSON.parse(stdout)]
    : stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
}

test("every command prints what its schema says", { timeout: 900_000 }, async () => {
  const place = await work.begin();
  await writeFile(join(place.clone, "asking.ts"), workflowSource(ASKING));
  const agent = await place.agent([GOOD]);
  const names = (await loadCommands())
    .map(({ spec }) => spec)
    .filter(({ hidden }) => hidden !== true)
    .map(({ name }) => name);
  const seen = new Set<string>();
  // The server that `ui` finds and opens.
  const server = place.start("ui", "--no-open", "--port", "0");
  await server.says("#k=");
  for (const [line, status = 0] of lines(agent)) {
    if (line.startsWith("store push"))
      await writeFile(join(place.clone, "holdfast.config.yaml"), "files: { remote: origin }\n");
    if (line === "take mine --dry-run") await holdElsewhere(place.clone);
    const finished = await place.run("--json", ...line.split(" "));
    expect(finished, line).toMatchObject({ status, stderr: "" });
    const name =
      names
        .filter((one) => `${line} `.startsWith(`${one} `))
        .toSorted()
        .at(-1) ?? "";
    seen.add(name);
    const documents = documentsOf(finished.stdout);
    for (const document of documents) {
      const schema = JSON_SCHEMAS[name];
      if (schema === undefined) throw new Error(`${name} has no schema`);
      const parsed = schema.safeParse(document);
      expect(parsed.error?.issues, `${line}: ${JSON.stringify(document)}`).toBeUndefined();
      if (documents.length > 1) expect(document, line).toHaveProperty("kind");
    }
  }
  expect(names.filter((name) => !seen.has(name) && name !== "format")).toEqual([]);
  server.child.kill("SIGINT");
  await server.ended;
});

test("the schemas reject unknown fields and unknown statuses", () => {
  const run = {
    id: "r",
    workflow: "impl",
    work: { kind: "none" },
    status: { kind: "saved", holder: null },
    stage: null,
    iteration: 0,
    checkpoints: 0,
    latest: null,
    createdAt: "2026-11-15T12:00:00.000Z",
    forkedFrom: null,
    labels: {},
    entries: 1,
    unfinishedRestore: null,
  };
  const accepts = (one: object): boolean | undefined => JSON_SCHEMAS["list"]?.safeParse({ runs: [one] }).success;
  expect(accepts(run)).toBe(true);
  expect(accepts({ ...run, state: "open" })).toBe(false);
  expect(accepts({ ...run, status: { kind: "parked" } })).toBe(false);
});
