import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { glob } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { type BuiltCommand, buildCommand } from "@holdfast/test-support/built-command";
import { GOOD } from "@holdfast/test-support/cli-repositories";
import type { Fault, ForgeServer } from "@holdfast/test-support/forges/forge-server";
import {
  type GithubScene,
  TOKEN,
  type UserClone,
  createGithubScene,
  forgeTransports,
} from "@holdfast/test-support/forges/forge-scenes";

let holdfast: BuiltCommand;
let scene: GithubScene | undefined;

beforeAll(async () => {
  holdfast = await buildCommand();
});
afterAll(() => holdfast.remove());
afterEach(async () => {
  await scene?.dispose();
  scene = undefined;
});

/** Where the command is killed: it waits for an answer that does not come, and the server has acted or not. */
const DEATHS: readonly Pick<Fault, "match" | "when">[] = [
  { match: /^GET .*\/issues\/1$/, when: "before" },
  { match: /^POST .*git-receive-pack/, when: "after" },
  { match: /^GET .*\/pulls\?/, when: "before" },
  { match: /^POST .*\/pulls$/, when: "before" },
  { match: /^POST .*\/pulls$/, when: "after" },
];

const [, gh] = forgeTransports("gh");

test.skipIf(gh.skip)(
  `an issue at GitHub becomes one pull request, though the command is killed five times, through ${gh.name}`,
  async () => {
    scene = await createGithubScene(gh.program);
    const { server, repository } = scene;
    const issue = { author: "dev", title: "Answer", body: "What is it?\n", labels: [] };
    const at = "2026-01-01T00:00:00Z";
    repository.issues.push({ ...issue, number: 1, state: "open", createdAt: at, updatedAt: at, labels: [] });
    const place = cloned(scene);
    const begin = ["run", "1", "--no-review", "--agent", place.agent];
    for (const [nth, death] of DEATHS.entries()) {
      server.faults.set({ ...death, times: 1, effect: { kind: "hang" } });
      await killWhenReached(server, holdfast.start(nth <= 1 ? begin : ["resume", "issue-1"], place.options));
    }
    const done = await holdfast.run(["resume", "issue-1"], place.options);
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect(done.stdout).toMatch(/Done issue-1: Pull request #2 is open/);
    expect(repository.pulls.map(({ number, title, state }) => [number, title, state])).toEqual([
      [2, "[feat][#1] Answer", "open"],
    ]);
    expect(repository.pulls[0]?.headCommit).toBe(await scene.tip("holdfast/issue-1"));
    const status = await holdfast.run(["--json", "status", "1"], place.options);
    expect(JSON.parse(status.stdout)).toMatchObject({
      run: { status: { kind: "done" }, budget: { spent: { tokens: 1000 } } },
    });
    expect(done.stdout + done.stderr + status.stdout).not.toContain(TOKEN);
    const kept = readdirSync(place.options.cwd, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isFile(),
    );
    const leaks = kept.filter((entry) => readFileSync(join(entry.parentPath, entry.name)).includes(TOKEN));
    expect(leaks.map(({ name }) => name)).toEqual([]);
  },
);

test.skipIf(gh.skip)(
  `changes that a person asks for at GitHub, and comments that changed since, are in the next prompt, through ${gh.name}`,
  async () => {
    scene = await createGithubScene(gh.program);
    const { repository, server } = scene;
    const at = "2026-01-01T00:00:00Z";
    const issue = { author: "dev", title: "Answer", body: "What is it?\n", createdAt: at, updatedAt: at } as const;
    repository.issues.push({ ...issue, number: 1, state: "open", labels: [] });
    // There as soon as the pull request is.
    const remarks = [{ path: "answer.txt", line: 1, body: "One more." }];
    const review = { id: 7, on: 2, author: "ada", isBot: false, body: "Nearly.", commit: "0", at, remarks };
    repository.reviews.push({ ...review, state: "CHANGES_REQUESTED" });
    const place = cloned(scene, [
      { ...GOOD, when: { role: "impl", iteration: 1 } },
      { ...GOOD, edits: [{ do: "write", path: "answer.txt", text: "43\n" }] },
    ]);
    await scene.writeComment(1, { author: "bob", body: "In English." });
    server.faults.set({ match: /^GET .*\/reviews/, times: 1, when: "before", effect: { kind: "hang" } });
    const begin = ["run", "1", "--no-review", "--wait-for-ci", "--agent", place.agent];
    await killWhenReached(server, holdfast.start(begin, place.options));
    repository.comments.splice(0, 1, { id: 1, on: 1, author: "bob", body: "In French." });
    await scene.writeComment(1, { author: "eve", body: "And in Latin." });
    const plan = await holdfast.run(["--json", "resume", "issue-1", "--dry-run"], place.options);
    expect(JSON.parse(plan.stdout).plan).toMatchObject({
      kind: "warn",
      judgements: [{ finding: { kind: "issue_comments_changed" } }],
    });
    const done = await holdfast.run(["resume", "issue-1"], place.options);
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect(done.stdout).toContain("asked for by ada");
    expect(repository.pulls).toHaveLength(1);
    const tip = await scene.tip("holdfast/issue-1");
    expect(scene.remote.bare.git("show", `${tip}:answer.txt`)).toBe("43\n");
    const prompt = readFileSync(await promptOf(place.options.cwd), "utf8");
    expect(prompt).toContain("ada:\nNearly.\n\nanswer.txt:1: One more.");
    expect(prompt.match(/^.*(?:English|French|Latin).*$/gm)).toEqual([
      "- > In English.",
      "+ > In French.",
      "+ > And in Latin.",
    ]);
  },
);

/** Kills the command when it waits for an answer that does not come. */
async function killWhenReached({ faults }: ForgeServer, child: ChildProcess): Promise<void> {
  const ended = once(child, "exit");
  await vi.waitFor(() => expect(faults.left).toBe(0), { timeout: 600_000, interval: 20 });
  child.kill("SIGKILL");
  await ended;
}

/** The agent's prompt in the second round. */
async function promptOf(clone: string): Promise<string> {
  const [found] = await Array.fromAsync(glob("**/.tmp/impl-input-2.txt", { cwd: join(clone, "..") }));
  if (found === undefined) throw new Error("there was no second round");
  return join(clone, "..", found);
}

function cloned(scene: GithubScene, answers: readonly object[] = [GOOD]): { agent: string; options: UserClone } {
  const script = join(scene.remote.folder, "agent.json");
  writeFileSync(script, JSON.stringify({ answers }));
  return { agent: `scripted:${script}`, options: scene.clone() };
}
