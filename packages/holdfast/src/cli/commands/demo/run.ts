import { randomInt } from "node:crypto";
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Exit } from "../../../core/exit.ts";
import type { JournalEntry } from "../../../core/journal/journal.ts";
import type { Input, Shell } from "../../command.ts";
import { escapeText } from "../../output/escape-text.ts";
import { parseCount } from "../../parse-count.ts";
import { gitIn, makeDemoRepository } from "./demo-repository.ts";
import type { DemoRepository } from "./demo-repository.ts";
import { DEMO_ISSUE } from "./demo-script.ts";
import { planKills } from "./kill-plan.ts";
import { prove } from "./proof.ts";
import type { DemoFacts } from "./proof.ts";
import type { demoSpec } from "./spec.ts";
import { timelineOf } from "./timeline.ts";
import { headingText, markedText, proofText, timelineText } from "./view.ts";
import { runWorker } from "./worker-process.ts";
import type { Death } from "./worker-process.ts";

const KILLS = 3;
const RUN = "issue-1";
const BRANCH = `holdfast/${RUN}`;

export async function run(shell: Shell, input: Input<(typeof demoSpec)["flags"]>): Promise<Exit> {
  const given = input.text("seed");
  const seed = given === undefined ? randomInt(1_000_000) : parseCount("seed", given);
  const directory = await realpath(await mkdtemp(join(tmpdir(), "holdfast-demo-")));
  const keep = input.on("keep");
  try {
    return await demonstrate(shell, { directory, seed, keep });
  } finally {
    if (!keep) await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function demonstrate(
  shell: Shell,
  params: { readonly directory: string; readonly seed: number; readonly keep: boolean },
): Promise<Exit> {
  const { directory, seed, keep } = params;
  const tell = (text: string): void => {
    if (!shell.json) shell.write(text);
  };
  tell(
    `An issue becomes a pull request. On the way its process is killed with SIGKILL\nat ${KILLS} random places (seed ${seed}) and resumed each time.\n`,
  );
  tell(headingText("A small repository, its remote, and an issue", shell.page));
  const [control, repository] = await Promise.all([makeWorld(directory, "control"), makeWorld(directory, "demo")]);
  tell(`  #1 ${DEMO_ISSUE.title}\n`);
  tell(headingText("First, to compare with: nobody kills it", shell.page));
  const calm = await runWorker(control, { death: null, resume: null });
  const { points, ends } = calm.kind === "ended" ? calm : { points: [], ends: 0 };
  const file = join(directory, "points.json");
  await writeFile(file, JSON.stringify(points));
  tell(
    `  $ holdfast run 1\n  ${calm.kind === "ended" ? calm.outcome : "died"}; ${points.length} moments at which it could have been killed\n`,
  );
  tell(headingText("Now with three deaths", shell.page));
  const deaths = await workAndDie(
    repository,
    { points: file, kills: planKills(seed, { points: points.length, ends, kills: KILLS }) },
    (line) => tell(line),
    shell,
  );
  const facts = await gatherFacts({ repository, control, deaths });
  const claims = prove(facts);
  const timeline = timelineOf(facts.entries, deaths);
  tell(headingText("The timeline, from the journal", shell.page));
  tell(timelineText(timeline, shell.page));
  tell(headingText("The proof", shell.page));
  tell(proofText(claims, shell.page));
  const ok = claims.every((claim) => claim.ok);
  const kept = keep ? directory : null;
  if (shell.json)
    shell.print({
      json: () => ({
        seed,
        ok,
        points: points.length,
        kills: deaths,
        timeline,
        proof: claims,
        tree: facts.tree,
        directory: kept,
      }),
      text: () => "",
    });
  else {
    if (kept !== null) tell(`\nKept: ${escapeText(join(repository.clone))}\n`);
    tell(
      ok
        ? "\nIn your own repository: holdfast run ISSUE --dry-run\n"
        : "\nThis must not happen. Please report it, with the seed.\n",
    );
  }
  return ok ? "done" : "failed";
}

/** A repository of the demo with its issue, below `directory`. */
export async function makeWorld(directory: string, name: string): Promise<DemoRepository> {
  const place = join(directory, name);
  await mkdir(place);
  const repository = await makeDemoRepository(place);
  const { openHoldfast } = await import("../../../app.ts");
  await using holdfast = await openHoldfast({ cwd: repository.clone });
  const { forge } = await holdfast.work.parts();
  await forge?.createIssue({ ...DEMO_ISSUE, labels: [], key: "demo" });
  return repository;
}

async function workAndDie(
  repository: DemoRepository,
  plan: { readonly points: string; readonly kills: readonly number[] },
  tell: (line: string) => void,
  shell: Shell,
): Promise<readonly Death[]> {
  const deaths: Death[] = [];
  for (const at of [...plan.kills, null]) {
    shell.signal.throwIfAborted();
    const resume = deaths.length === 0 ? null : RUN;
    tell(`  $ holdfast ${resume === null ? "run 1" : `resume ${resume}`}\n`);
    const end = await runWorker(repository, { death: at === null ? null : { points: plan.points, at }, resume });
    if (end.kind === "ended") {
      tell(`  ${end.outcome}\n`);
      break;
    }
    deaths.push(end.death);
    const { stage, iteration, place } = end.death;
    tell(markedText("✗", "red", `killed in ${stage}${iteration > 0 ? ` #${iteration}` : ""}, ${place}`, shell.page));
  }
  return deaths;
}

/** What the proof is made from. */
export async function gatherFacts(params: {
  readonly repository: DemoRepository;
  readonly control: DemoRepository;
  readonly deaths: readonly Death[];
}): Promise<DemoFacts> {
  const { repository, control, deaths } = params;
  const { openHoldfast } = await import("../../../app.ts");
  await using holdfast = await openHoldfast({ cwd: repository.clone, create: false });
  const parts = await holdfast.work.parts();
  const entries: JournalEntry[] = [];
  for await (const entry of (await holdfast.run(RUN)).log()) entries.push(entry);
  const remote = gitIn(repository.remote, repository.env);
  const heads = (await remote("for-each-ref", "--format=%(refname:short)", "refs/heads")).split("\n");
  const treeOf = (world: DemoRepository) => gitIn(world.remote, world.env)("rev-parse", `refs/heads/${BRANCH}^{tree}`);
  let verified = { ok: false, entries: 0, checkpoints: 0 };
  for await (const event of holdfast.verify()) if (event.kind === "summary") verified = event;
  return {
    run: RUN,
    entries,
    branches: heads.filter((name) => name !== "main"),
    forgeLog: await readForgeLog(parts.forge?.location ?? ""),
    verified,
    leftBehind: await holdfast.work.endProcesses(RUN),
    tree: await treeOf(repository),
    controlTree: await treeOf(control),
    deaths: deaths.length,
  };
}

async function readForgeLog(location: string): Promise<DemoFacts["forgeLog"]> {
  const text = await readFile(join(location, "log.jsonl"), "utf8");
  return text
    .trim()
    .split("\n")
    .map((line) => {
      const { what, key }: { what?: unknown; key?: unknown } = JSON.parse(line);
      return { what: String(what), key: typeof key === "string" ? key : null };
    });
}
