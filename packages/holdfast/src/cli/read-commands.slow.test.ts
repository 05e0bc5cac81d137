import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, lstatSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadCommands } from "./command-table.ts";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import type { Inbox, RunsPage } from "@holdfast/dashboard/api";
import { startPage } from "../../test/ui/page-server.ts";

const COMMANDS = await loadCommands();

/** Every command that only reads, and every dry run. `late` is the run that is incomplete in the damaged stores. */
const READS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  agents: [["agents"]],
  compare: [["compare", "intact@1", "intact@2"]],
  complete: [["complete", "--", "show", "int"]],
  "format convert": [["format", "convert", "nothing.json", "--to", "impl-json"]],
  diff: [["diff", "intact@1", "intact@2"], ["diff"]],
  doctor: [["doctor"]],
  "format export": [
    ["format", "export", "intact", "--to", "atif"],
    ["format", "export", "intact", "--to", "html"],
  ],
  find: [["find", "HEAD"]],
  undo: [["undo", "intact"]],
  list: [["list"], ["list", "intact"], ["list", "--all-repositories"]],
  events: [
    ["events", "intact"],
    ["events", "late"],
  ],
  output: [["output", "intact"]],
  replay: [["replay", "intact"]],
  "format schema": [["format", "schema"]],
  show: [
    ["show", "intact"],
    ["show", "intact@2"],
  ],
  status: [["status"], ["status", "intact"]],
  // Its server is tested below.
  ui: [["ui", "--no-open", "no-run"]],
  "format validate": [["format", "validate", "nothing.json"]],
  verify: [["verify"], ["verify", "--quarantine", "--dry-run"]],
  "other commands": [
    ["config"],
    ["help"],
    ["completion", "bash"],
    ["tag"],
    ["checkpoint", "--run", "intact", "--dry-run"],
    ["restore", "intact@1", "--dry-run"],
    ["gc", "--dry-run"],
    ["resume", "intact", "--dry-run"],
    ["cherry-pick", "late@1", "--into", "intact", "--dry-run"],
  ],
};

const MOST: readonly (readonly string[])[] = [
  ["list"],
  ["show", "intact"],
  ["events", "late"],
  ["status", "intact"],
  ["verify"],
];

/** A process that saves a run and is killed with its log full. */
const KILLED = `
  const { open } = await import(${JSON.stringify(new URL("../index.ts", import.meta.url).href)});
  const holdfast = await open({ cwd: process.cwd() });
  const handle = await holdfast.createRun({ id: "late" });
  for (let n = 1; n <= 6; n++) await handle.save({ values: { n } });
  process.kill(process.pid, "SIGKILL");
`;

let journey: Journey;
let store = "";
beforeAll(async () => {
  journey = await startJourney();
  await journey.begin();
  await journey.write("src/a.txt", "two\n");
  await journey.json("checkpoint", "--run", "intact");
  await journey.write("src/a.txt", "three\n");
  await journey.json("checkpoint", "--run", "intact");
  store = join(journey.repository(), ".git/holdfast");
  cpSync(store, join(journey.holdfast.directory, "before"), { recursive: true });
  const killed = promisify(execFile)(process.execPath, ["--input-type=module", "-e", KILLED], {
    cwd: journey.repository(),
  });
  await expect(killed).rejects.toMatchObject({ signal: "SIGKILL" });
  expect(statSync(join(store, "store.db-wal")).size).toBeGreaterThan(8192);
  cpSync(store, join(journey.holdfast.directory, "killed"), { recursive: true });
}, 120_000);
afterAll(() => journey.holdfast.remove());

interface Scene {
  readonly name: string;
  readonly from: "before" | "killed";
  readonly damage: () => void;
  readonly cut: boolean;
  /** Every command is tried on one whole store and on one that is damaged; on the others those that read most. */
  readonly every?: true;
}

const SCENES: readonly Scene[] = [
  { name: "closed", from: "before", cut: false, every: true, damage: () => {} },
  { name: "left by a killed process", from: "killed", cut: false, damage: () => {} },
  {
    name: "with a log whose shared memory is gone",
    from: "killed",
    cut: false,
    damage: () => rmSync(join(store, "store.db-shm")),
  },
  { name: "with a damaged log", from: "killed", cut: true, every: true, damage: () => damageLog() },
  {
    name: "with a database that is older than its high-water mark",
    from: "killed",
    cut: true,
    damage() {
      for (const name of ["store.db-wal", "store.db-shm"]) rmSync(join(store, name));
    },
  },
];

function place({ from, damage }: Scene): void {
  rmSync(store, { recursive: true, force: true });
  cpSync(join(journey.holdfast.directory, from), store, { recursive: true });
  damage();
}

/** From the middle of the log on. */
function damageLog(): void {
  const path = join(store, "store.db-wal");
  const bytes = readFileSync(path);
  writeFileSync(
    path,
    bytes.map((byte, at) => (at > bytes.length / 3 ? byte ^ 0x5a : byte)),
  );
}

/** Names, modes and bytes. The shared memory is SQLite's cache and is written again at every start: its name counts, its bytes do not. */
function filesOf(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .map((entry) => {
      const path = join(entry.parentPath, entry.name);
      const { mode } = lstatSync(path);
      const sum =
        !entry.isFile() || path.endsWith("-shm") ? "" : createHash("sha256").update(readFileSync(path)).digest("hex");
      return `${path.slice(folder.length)} ${mode.toString(8)} ${sum}`;
    })
    .toSorted();
}

test("every command that only reads is tested here", () => {
  const reads = COMMANDS.filter(({ spec }) => spec.reads === true).map(({ spec }) => spec.name);
  expect(Object.keys(READS)).toEqual(expect.arrayContaining(reads));
});

describe.each(sampleBySeed(SCENES, 3))("a store $name", (scene) => {
  test("no command that reads changes a file of it", async () => {
    place(scene);
    const before = filesOf(store);
    const lines = scene.every === true ? Object.values(READS).flat() : MOST;
    for (const args of lines) {
      const { status, stderr } = await journey.run(...args);
      expect(filesOf(store), args.join(" ")).toEqual(before);
      expect(stderr, args.join(" ")).not.toMatch(/STORE_READ_ONLY|INTERNAL|read-only|readonly|internal error/i);
      expect([0, 2, 3, 4, 6], `${args.join(" ")}: ${stderr}`).toContain(
        scene.name === "closed" && args[0] === "doctor" ? 0 : status,
      );
    }
  });

  test("the page shows what can be read, and changes no file of it", async () => {
    place(scene);
    const before = filesOf(store);
    await using page = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
    const { rows, problems } = await page.get<RunsPage>("/api/runs");
    expect(rows.map(({ run }) => run.id)).toContain("intact");
    expect(problems.map(({ problem }) => problem.code)).toEqual(scene.cut ? ["STORE_CUT"] : []);
    const key = rows.find(({ run }) => run.id === "intact")?.key;
    for (const path of ["", "/timeline", "/entries", "/checkpoints/2", "/report"])
      await page.get(`/api/runs/${key}${path}`);
    const { items } = await page.get<Inbox>("/api/inbox");
    expect(items).toEqual([]);
    expect(filesOf(store)).toEqual(before);
  });

  test("intact runs are read in full", async () => {
    place(scene);
    const [shown, log, list] = [
      await journey.json("show", "intact@2"),
      await journey.run("events", "intact"),
      await journey.run("list"),
    ];
    expect(shown.checkpoint ?? shown).toMatchObject({ id: "intact@2" });
    expect(log).toMatchObject({ status: 0, stderr: "" });
    expect(log.stdout).toContain("checkpoint");
    expect(list.stdout).toMatch(/^intact /m);
    expect(list.status).toBe(scene.cut ? 6 : 0);
    if (!scene.cut) return;
    // What is not known in full is not shown as if it were.
    expect(list.stdout).not.toMatch(/^late /m);
    expect(list.stderr).toMatch(/older or shorter than before/);
    expect((await journey.run("show", "late")).status).toBe(6);
    const verified = await journey.run("verify");
    expect([verified.status, verified.stdout]).toEqual([6, expect.stringContaining("STORE_CUT")]);
  });
});

test("no command that reads, and no dry run, needs consent to the repository's settings", async () => {
  const [closed] = SCENES;
  place(closed ?? expect.unreachable("there is no scene"));
  const marker = join(journey.holdfast.directory, "executed");
  const config = join(journey.repository(), "holdfast.config.yaml");
  const run = (args: readonly string[]) => journey.runIn(".", args, { env: { HOLDFAST_TRUST: "0" } });
  writeFileSync(config, `agent: "command:touch ${marker}"\nimpl:\n  gate: touch ${marker}\n  yolo: true\n`);
  try {
    const asking: string[] = [];
    for (const args of Object.values(READS).flat()) {
      const { stdout, stderr } = await run([...args, "--json"]);
      if (`${stdout}${stderr}`.includes("UNTRUSTED_SETTINGS")) asking.push(args.join(" "));
    }
    expect(asking).toEqual([]);
    expect(existsSync(marker)).toBe(false);
    // The same settings stop a command that would use them.
    const started = await run(["run", "1", "--json"]);
    expect([started.status, started.stderr]).toEqual([4, expect.stringContaining("UNTRUSTED_SETTINGS")]);
  } finally {
    rmSync(config);
  }
});

describe("a damaged store that is opened for writing", () => {
  test.each(SCENES.filter(({ cut }) => cut))(
    "$name: its files are copied first, once, and it is refused",
    async (scene) => {
      place(scene);
      const names = ["store.db", "store.db-wal", "high-water", "store.json"].filter((name) =>
        existsSync(join(store, name)),
      );
      const before = names.map((name) => readFileSync(join(store, name)));
      const refused = await journey.fails(6, "checkpoint", "--run", "intact");
      const [folder = "", ...others] = readdirSync(join(store, "quarantine"));
      expect(others).toEqual([]);
      const kept = join(store, "quarantine", folder);
      expect(refused.replaceAll(/\s+/g, "")).toContain(`copiedto${kept}`);
      expect(readdirSync(kept).toSorted()).toEqual(names.toSorted());
      expect(names.map((name) => readFileSync(join(kept, name)))).toEqual(before);
      expect(names.map((name) => readFileSync(join(store, name)))).toEqual(before);
      for (const name of names) expect(statSync(join(kept, name)).mode & 0o777, name).toBe(0o600);
      await journey.fails(6, "checkpoint", "--run", "intact");
      expect(readdirSync(join(store, "quarantine"))).toEqual([folder]);
      // Accepts the loss as the hint describes; the copy is kept.
      rmSync(join(store, "high-water"));
      await journey.json("checkpoint", "--run", "intact");
      expect(names.map((name) => readFileSync(join(kept, name)))).toEqual(before);
    },
  );

  test("a log is copied also when the high-water mark was removed before anything was opened for writing", async () => {
    const scene = SCENES.find(({ name }) => name === "with a damaged log") ?? SCENES[0];
    if (scene === undefined) throw new Error("no scene");
    place(scene);
    rmSync(join(store, "high-water"));
    const log = readFileSync(join(store, "store.db-wal"));
    await journey.json("checkpoint", "--run", "intact");
    const [folder = ""] = readdirSync(join(store, "quarantine"));
    expect(readFileSync(join(store, "quarantine", folder, "store.db-wal"))).toEqual(log);
  });
});

/** A user that may not write, or a mount that cannot be written: what this machine has. */
function readOnlyPlace(): { readonly wrap: (argv: readonly string[]) => readonly string[] } | string {
  if (process.getuid?.() !== 0) return { wrap: (argv) => argv };
  try {
    execFileSync("unshare", ["-m", "true"]);
  } catch {
    return "root may write everywhere, and there is no mount namespace here";
  }
  const repository = journey.repository();
  const script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && cd "$0" && exec "$@"';
  return { wrap: (argv) => ["unshare", "-m", "sh", "-c", script, repository, ...argv] };
}

const WHOLE = SCENES.filter(({ cut }) => !cut);
describe.each(sampleBySeed(WHOLE, 1, "read-only"))("on a read-only file system, a store $name", (scene) => {
  test("is read", async (context) => {
    place(scene);
    const only = readOnlyPlace();
    if (typeof only === "string") return context.skip(only);
    if (process.getuid?.() !== 0) execFileSync("chmod", ["-R", "a-w", journey.repository()]);
    try {
      const before = filesOf(store);
      const lines = [
        ...MOST.filter(([name]) => name !== "events"),
        ["events", "intact"],
        ["diff", "intact@1", "intact@2"],
      ];
      for (const args of lines) {
        const [program = "", ...rest] = only.wrap([process.execPath, journey.holdfast.entry, ...args]);
        const done = await promisify(execFile)(program, rest, {
          cwd: journey.repository(),
          env: { PATH: process.env["PATH"], HOME: journey.holdfast.directory },
        }).catch((error: { stderr: string }) => ({ stdout: "", stderr: `failed: ${error.stderr}` }));
        const text = `${args.join(" ")}: ${done.stdout}${done.stderr}`;
        expect(text).not.toMatch(/failed:|error:/);
      }
      expect(filesOf(store)).toEqual(before);
    } finally {
      if (process.getuid?.() !== 0) execFileSync("chmod", ["-R", "u+w", journey.repository()]);
    }
  });
});

test("a writer that starts while a reader follows is seen", async () => {
  const scene = SCENES[0];
  if (scene === undefined) throw new Error("no scene");
  place(scene);
  const follow = journey.holdfast.start(["events", "intact", "--follow", "--json"], { cwd: journey.repository() });
  try {
    let seen = "";
    const until = (text: string): Promise<void> =>
      new Promise((resolve) => {
        follow.stdout?.on("data", (chunk: Buffer) => {
          seen += chunk.toString();
          if (seen.includes(text)) resolve();
        });
      });
    const first = until("checkpoint");
    await first;
    const next = until("while it follows");
    await journey.json("checkpoint", "--run", "intact", "--name", "while it follows");
    await next;
  } finally {
    follow.kill("SIGKILL");
  }
});
