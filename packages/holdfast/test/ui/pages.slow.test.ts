import { appendFile, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Changes, LogRow, Report, RunPage, TextRange } from "@holdfast/dashboard/api";
import type { JsonObject } from "@holdfast/core/json";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openHoldfast } from "../../src/open.ts";
import { withoutPauses } from "../bench/without-pauses.ts";
import { node, reply, settings } from "../crunch/answers.ts";
import { applied, applyPlan, axeEverywhere, expectText, launch, noBrowser, open, until, visit } from "./browser.ts";
import { type PageServer, startPage } from "./page-server.ts";

/** The page in a real browser, against the real server, over runs that scripted agents made. The tests build on each other. */

const work = workSuite();
/** Text that must stay text: markup, a change of direction, and commands to a terminal. */
const HOSTILE = `<img src=x onerror="alert(1)"> \u202egnp.exe \u001b]0;owned\u0007\u001b[31mred\u001b[0m javascript:alert(2)`;
const FILE = "<script>alert(3)<-script>.js";
const LONG_LINE = 10_000_000;
const FILES = 100;
const LINES = 50;
/** Elements that a page may have, whatever it shows. */
const MOST_ELEMENTS = 3000;

/** Prints 100,000 lines, with a line of 10 MB and commands to a terminal at their end. */
const TALKER = `
const { writeFileSync } = require("node:fs");
const line = (number) => "line " + number + " \\u001b[32mgreen\\u001b[0m";
console.log(Array.from({ length: 100_000 }, (_, number) => line(number)).join("\\n"));
console.log("x".repeat(${LONG_LINE}));
console.log(${JSON.stringify(HOSTILE)});
writeFileSync("said.txt", "y".repeat(${LONG_LINE}));
`;

describe.skipIf(noBrowser !== null)(`the page${noBrowser === null ? "" : ` (${noBrowser})`}`, () => {
  let place: WorkPlace;
  let server: PageServer;
  let browser: Browser;
  /** The run of the team. */
  let team = "";
  beforeAll(async () => {
    place = await work.begin();
    // A command that wrote to a store puts its repository on the list.
    await place.json("checkpoint", "--run", "by-hand", "--name", "Before all of it");
    [server, browser] = await Promise.all([startPage(place.holdfast, { cwd: place.clone }), launch()]);
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await server?.[Symbol.asyncDispose]();
  });

  const at = (path: string): string => `${server.origin}${path}`;
  const pageOf = (id: string): Promise<RunPage> => server.get<RunPage>(`/api/runs/shop/${id}`);
  const statusOf = async (id: string): Promise<string> => (await place.json("status", id)).run.status.kind;
  const shows = (page: Page, state: string): Promise<unknown> => page.waitForSelector(`.facts [data-state=${state}]`);

  test("shows output that begins late, and the end of output that comes too fast", async () => {
    const folder = join(place.clone, ".git/holdfast/logs/by-hand");
    const log = join(folder, "1-agent.log");
    await mkdir(folder, { recursive: true });
    await writeFile(log, "");
    const { page, context, surprises } = await visit(browser, server);
    await open(page, at("/r/shop/by-hand"));
    await expectText(page, "Output of");
    await appendFile(log, "the first line\n");
    await expectText(page, "the first line");
    await appendFile(log, `${"one of many lines\n".repeat(1_000_000)}the last line\n`);
    await expectText(page, "the last line", "Show earlier output");
    expect(surprises).toEqual([]);
    await context.close();
    await rm(folder, { recursive: true });
  });

  test("tells a newcomer what to type", async () => {
    const home = join(place.holdfast.directory, "newcomer");
    await mkdir(home);
    await using empty = await startPage(place.holdfast, { cwd: home, env: { HOME: home, XDG_STATE_HOME: home } });
    const { page, context, surprises } = await visit(browser, empty);
    await open(page, empty.origin);
    await expectText(page, "No runs yet.", "holdfast run 42", "holdfast demo --keep");
    // A repository that cannot be read: runs that need the user may be missing.
    const broken = join(home, "broken");
    await place.git("init", "-q", broken);
    const saved = await place.holdfast.run(["checkpoint", "--run", "one"], {
      cwd: broken,
      env: { HOME: home, XDG_STATE_HOME: home },
    });
    expect(saved.status, saved.stderr).toBe(0);
    await writeFile(join(broken, ".git/holdfast/store.db"), "damaged");
    await open(page, `${empty.origin}/inbox`);
    await expectText(page, "Nothing needs you.", "broken", "The database is damaged");
    // A browser without a session sees how to get one.
    await page.evaluate("sessionStorage.setItem('holdfast.token', 'another')");
    await page.reload();
    await expectText(page, "This browser has no session", "holdfast ui");
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("follows a run that is paused, resumed, killed and resumed, without a reload", async () => {
    const agent = await place.agent([{ when: { role: "impl" }, edits: GOOD.edits, hang: true }]);
    const { page, context, surprises } = await visit(browser, server);
    await open(page, at("/runs"));
    // A run without an issue or a task has the name of its checkpoint.
    await expectText(page, "saved", "Before all of it");
    await page.evaluate("window.loaded = 1");

    const first = place.start("run", "1", "--no-review", "--agent", agent);
    await page.waitForSelector(`[data-row="shop/issue-1"] [data-state="running"]`);
    await page.click(`[data-row="shop/issue-1"] .row-link`);
    await shows(page, "running");
    await expectText(page, "heartbeat", "impl #1");
    await page.waitForSelector(".lane[data-kind=stage] .bar-open", { state: "attached" });
    await applyPlan(page, "Pause…", { command: "holdfast stop issue-1 --reason 'paused on the page'" });
    await first.ended;
    await shows(page, "paused");

    await applyPlan(page, "Resume…", { command: "holdfast resume issue-1 --detach" });
    await shows(page, "running");
    await until(async () => (await pageOf("issue-1")).row.step?.title === "agent");
    const { status } = (await pageOf("issue-1")).row.run;
    process.kill(status.kind === "running" ? status.holder.pid : 0, "SIGKILL");
    await shows(page, "crashed");
    await until(async () => (await page.title()).startsWith("(1) "));

    await place.agent([
      {
        ...GOOD,
        reply: HOSTILE,
        edits: [
          ...GOOD.edits,
          { do: "write", path: FILE, text: `const a = 1; // ${HOSTILE}\n` },
          ...Array.from({ length: FILES }, (_, file) => ({
            do: "write",
            path: `many/${file}.ts`,
            text: Array.from({ length: LINES }, (_, line) => `export const a${line} = "${file}";\n`).join(""),
          })),
        ],
      },
    ]);
    // While a question is shown, the digits choose its options.
    const resumes = page.getByRole("radio", { name: "Resume" });
    await resumes.waitFor();
    await until(async () => {
      await page.keyboard.press("1");
      return await resumes.isChecked();
    });
    await applyPlan(page, "Show the plan…", { command: "holdfast resume issue-1 --detach" });
    await shows(page, "done");
    await expectText(page, "survived 1", "impl #1 · agent, ");
    // What the process in the background printed is text, not events for programs.
    const logs = await server.get<readonly LogRow[]>("/api/runs/shop/issue-1/logs");
    const { number } = logs.findLast(({ stage }) => stage === null) ?? { number: 0 };
    const { text } = await server.get<TextRange>(`/api/runs/shop/issue-1/logs/${number}?offset=0&limit=65536`);
    expect(text).toMatch(/^\d\d:\d\d.*impl/m);
    expect(text.match(/^\{"(?!kind":"result")/gm)).toBeNull();
    // All that the run has done.
    await page.keyboard.press("2");
    await expectText(page, `${FILES + 2} files`);
    await page.keyboard.press("1");
    expect(await page.locator(".crash").count()).toBe(1);
    expect(await page.evaluate("window.loaded")).toBe(1);
    expect(await page.title()).toMatch(/^#1 .+ · shop\/issue-1 · Holdfast$/);
    const { entries } = await place.json("events", "issue-1", "--limit", "all");
    expect(JSON.stringify(entries)).toMatch(/\(page\)/);
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("shows hostile text as text, and stays small with much output and large diffs", async () => {
    await writeFile(join(place.clone, "..", "talker.cjs"), TALKER);
    const talker = `command:node ${join(place.clone, "..", "talker.cjs")}`;
    const loopOf = ["run", "--workflow", "ralph", "--until", "test -e said.txt"];
    const talked = await place.run(...loopOf, "--task", HOSTILE, "--agent", talker);
    expect(talked.status, talked.stdout.slice(-2000) + talked.stderr).toBe(0);
    const { runs } = await place.json("list", "--limit", "all");
    const loop: string = runs.find(({ workflow }: { workflow: string }) => workflow === "ralph").id;
    // A loop without a base branch is compared with its first files, not with the commits that it made.
    const { files } = await server.get<Changes>(`/api/diff?a=shop/${loop}@base&b=shop/${loop}@worktree`);
    expect(files).toMatchObject([{ path: "said.txt", status: "added" }]);
    const { page, context, surprises } = await visit(browser, server);
    const elements = (): Promise<number> => page.evaluate<number>("document.querySelectorAll('*').length");

    await open(page, at(`/r/shop/${loop}`));
    await expectText(page, "<img src=x onerror=", "U+202E", "javascript:alert(2)");
    expect(await elements()).toBeLessThan(MOST_ELEMENTS);
    // The end of the output first. Its commands to a terminal are gone, its colours are not.
    await page.locator(".log-text", { hasText: "gnp.exe red" }).waitFor();
    await page.waitForSelector(".log-text .ansi-red, .log-text [class*=red]");
    await page.getByRole("button", { name: "Show earlier output" }).click();
    expect(await elements()).toBeLessThan(MOST_ELEMENTS);

    await open(page, at("/r/shop/issue-1/@base..worktree"));
    await expectText(page, FILE, `${FILES + 2} files`);
    await page.getByRole("button", { name: FILE }).click();
    await expectText(page, "const a = 1;", '<img src=x onerror="alert(1)">', "U+202E", "U+001B");
    // The end of a long list is drawn when it is scrolled there.
    await page.evaluate("document.querySelector('.file-list').scrollTo(0, 1e6)");
    await page.getByRole("button", { name: `many/${FILES - 1}.ts` }).click();
    await expectText(page, `export const a${LINES - 1} = "${FILES - 1}";`);
    expect(await elements()).toBeLessThan(MOST_ELEMENTS);
    // A report has the same patches, from one comparison.
    const { patches } = await server.get<Report>("/api/runs/shop/issue-1/report");
    expect(patches).toHaveLength(FILES + 1);
    const ends = "a=shop/issue-1@base&b=shop/issue-1@latest";
    for (const one of [patches[0], patches.at(-1)])
      expect(await server.get(`/api/diff/file?${ends}&path=${encodeURIComponent(one?.path ?? "")}`)).toEqual(one);
    await open(page, at("/r/shop/issue-1/report"));
    await expectText(page, "<script>alert(3)<-script>.js", 'export const a0 = "0";');
    await open(page, at(`/r/shop/${loop}/@1..5?file=said.txt`));
    await expectText(page, "The rest of this diff is left out");
    expect(await elements()).toBeLessThan(MOST_ELEMENTS);
    expect(await page.locator("main img, main script, main a[href^=javascript]").count()).toBe(0);
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("restores and undoes by keyboard alone, and shows what changed since the plan", async () => {
    const worktree = (await pageOf("issue-1")).worktree ?? "";
    const answer = (): Promise<string> => readFile(join(worktree, "answer.txt"), "utf8").catch(() => "none");
    expect(await answer()).toBe("42\n");
    const { page, context, surprises } = await visit(browser, server);
    await open(page, at("/runs"));
    await page.waitForSelector(`[data-row="shop/issue-1"]`);
    const focused = (): Promise<string> =>
      page.evaluate<string>("document.activeElement.closest('[data-row]')?.dataset.row ?? ''");
    while ((await focused()) !== "shop/issue-1") await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".checkpoint-lane");
    await page.keyboard.press("Control+k");
    await page.waitForSelector("dialog [role=combobox]");
    await page.keyboard.type("issue-1@1");
    await page.locator("[role=option]", { hasText: "Open issue-1@1" }).waitFor();
    await page.keyboard.press("Enter");
    await page.locator("h1", { hasText: "issue-1@1" }).waitFor();
    await page.waitForSelector("main .skeleton", { state: "detached" });

    await page.keyboard.press("r");
    await page.waitForSelector("dialog .plan-lines");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Cancel");
    expect(await page.innerText("dialog")).toContain("restore issue-1@1 --yes");
    const [, saved = ""] = /are saved as (@\d+)\./.exec(await page.innerText("dialog")) ?? [];
    expect(await answer()).toBe("42\n");
    // The world moves: nothing happens, and the sheet marks what is different.
    await writeFile(join(worktree, "later.txt"), "later\n");
    await page.keyboard.press("Control+Enter");
    await page.waitForSelector("dialog .notice");
    expect(await page.innerText("dialog .new-line:has-text('later')")).toBe("− later.txt");
    expect(await answer()).toBe("42\n");
    await page.keyboard.press("Control+Enter");
    await page.waitForSelector("dialog", { state: "detached" });
    expect(await answer()).toBe("none");
    // Its pull request is still there, which the restored values do not mention. The checkpoint itself has none.
    const { runs: compared } = await place.json("compare", "issue-1", "issue-1@1");
    expect(compared).toMatchObject([{ pullRequest: { number: 2 } }, { pullRequest: null }]);

    await page.keyboard.press("Escape");
    // The undo is what the plan had said.
    await page.locator(".undo-strip", { hasText: `saved before as ${saved || "?"}` }).waitFor();
    // What the restore left is dimmed.
    await page.waitForSelector(".left");
    await page.keyboard.press("u");
    await page.waitForSelector("dialog .plan-lines");
    await page.keyboard.press("Control+Enter");
    await applied(page);
    expect(await answer()).toBe("42\n");
    expect(await readFile(join(worktree, "later.txt"), "utf8")).toBe("later\n");
    await page.keyboard.press("+");
    await page.waitForSelector(".timeline.zoomed");
    await page.keyboard.press("0");
    await page.waitForSelector(".timeline:not(.zoomed)");
    // The same keys on the page of the run plan for its selected checkpoint, and nothing happens without a plan.
    const titles = ["Restore issue-1 to @", "Fork from checkpoint", "Tag checkpoint"];
    for (const [index, key] of ["r", "f", "t"].entries()) {
      await page.keyboard.press(key);
      await page.locator("dialog h2", { hasText: titles[index] ?? "" }).waitFor();
      await page.keyboard.press("Escape");
      await page.waitForSelector("dialog", { state: "detached" });
    }
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("shows a team: its graph by batches, messages, conflicts and votes, and answers it by the arrow keys", async () => {
    const vote = (agent: string, choice: string, rest: object = {}): object => ({
      when: { role: `debate-${agent}` },
      reply: JSON.stringify({ choice, rationale: "As before.", confidence: 80, relevance: 1, ...rest }),
    });
    const wants = (choice: string): { readonly recommendations: JsonObject[] } => ({
      recommendations: [{ scope: "sign-in", choice, rationale: HOSTILE, confidence: 80 }],
    });
    const veto = { severity: "HIGH", target: "use sessions", reason: HOSTILE };
    const agent = await place.agent([
      reply("tokens", wants("use tokens")),
      reply("sessions", wants("use sessions")),
      reply("summary", { broadcasts: [{ event: "CONTEXT_UPDATE", message: HOSTILE }] }),
      vote("security-analyst", "use tokens", { veto }),
      vote("dev-python", "use sessions"),
    ]);
    const graph = settings({
      enrich: [
        node("tokens", "security-analyst"),
        node("sessions", "dev-python"),
        node("summary", "techwriter", { after: ["tokens", "sessions"] }),
      ],
    });
    {
      await using holdfast = await openHoldfast({ cwd: place.clone, adapters: withoutPauses });
      const { forge } = await holdfast.work.adapters();
      const issue = await forge?.createIssue({ title: "Sign in", body: "How?", labels: [], key: "team" });
      const work = { kind: "issue", number: issue?.number ?? 0 } as const;
      const started = await holdfast.start({
        workflow: "crunch",
        work,
        agent,
        options: { ...graph, target: "enrich" },
      });
      team = started.run;
      expect(started.outcome).toMatchObject({ kind: "waiting", for: "you" });
    }
    const { page, context, surprises } = await visit(browser, server);
    await open(page, at(`/r/shop/${team}/graph`));
    await page.waitForSelector(".graph");
    const batches = await page.locator(".batch").allInnerTexts();
    expect(batches.map((text) => text.match(/^(?:tokens|sessions|summary)$/gm)?.toSorted())).toEqual([
      ["sessions", "tokens"],
      ["summary"],
    ]);
    await expectText(page, "security-analyst, work", "dev-python, work");
    await page.getByRole("tab", { name: "Team" }).click();
    await expectText(page, "Conflict: sign-in", "asks you", "high veto of", "80 %", "<img src=x onerror=", "U+202E");
    const votes = await page.locator("#tab-panel .card .message").allInnerTexts();
    expect(votes.map((text) => text.split("\n").slice(0, 2).join(": ")).toSorted()).toEqual([
      "dev-python, round 1, 80 % sure: Votes for use sessions.",
      "security-analyst, round 1, 80 % sure: Votes for use tokens.",
    ]);
    expect(await page.locator(".message", { hasText: "orchestrator  vote" }).count()).toBe(2);

    // The radio buttons of a question keep the keys that every form has.
    await page.getByRole("tab", { name: "Now" }).click();
    const options = page.getByRole("radio");
    const [choice = ""] = /use \w+/.exec(await page.locator(".option").nth(1).innerText()) ?? [];
    await options.first().focus();
    await page.keyboard.press("Space");
    await page.keyboard.press("ArrowRight");
    expect(await options.nth(1).isChecked()).toBe(true);
    expect(page.url()).toBe(at(`/r/shop/${team}`));
    await page.keyboard.press("Enter");
    await page.locator("dialog h2", { hasText: `Answer ${team}` }).waitFor();
    await page.locator("dialog .plan-lines", { hasText: choice || "a choice" }).waitFor();
    await page.keyboard.press("Control+Enter");
    await applied(page);
    await shows(page, "done");
    await page.getByRole("tab", { name: "Team" }).click();
    await expectText(page, "settled by you", choice);
    await open(page, at(`/r/shop/${team}/report`));
    await expectText(page, "Task graph", "settled by you");
    expect(await page.locator("main img, main script").count()).toBe(0);
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("tags, forks, copies a file, chooses and saves", async () => {
    const { page, context, surprises } = await visit(browser, server);
    await open(page, at("/r/shop/issue-1/@2"));
    // A refused name can be changed.
    await page.keyboard.press("t");
    await page.locator("dialog input[type=text]").fill("two words");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Change it" }).click();
    expect(await page.locator("dialog input[type=text]").inputValue()).toBe("two words");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await applyPlan(page, "Tag…", { command: "holdfast tag issue-1@2 good", asks: "good" });
    expect((await place.json("list", "issue-1", "--limit", "all")).checkpoints.flatMap(tagsOf)).toContain("good");
    await page.locator(".tag", { hasText: "good" }).waitFor();
    await applyPlan(page, "Remove the tag good", { command: "holdfast tag issue-1 good --delete" });
    await page.waitForSelector(".tag", { state: "detached" });

    await applyPlan(page, "Fork from here…", {
      command: "holdfast fork issue-1@2 --as other-way",
      asks: "other-way",
    });
    // The result leads to the new run.
    await page.locator(".result a", { hasText: "Open" }).waitFor();
    const { worktree } = await pageOf("other-way");
    await open(page, at("/compare?a=shop/issue-1&b=shop/other-way"));
    await expectText(page, "They share checkpoint issue-1@2", "no changes since issue-1@2");
    await page.getByRole("button", { name: "answer.txt" }).click();
    const { latest } = (await pageOf("issue-1")).row.run;
    await applyPlan(page, "Create this file in other-way…", {
      command: `holdfast cherry-pick issue-1@${latest?.sequence} --into other-way -- answer.txt`,
    });
    expect(await readFile(join(worktree ?? "", "answer.txt"), "utf8")).toBe("42\n");
    await applyPlan(page, "Choose issue-1…", { command: "holdfast compare issue-1 other-way --choose issue-1" });
    expect((await place.json("list", "issue-1", "--limit", "all")).checkpoints.flatMap(tagsOf)).toContain("chosen");
    await page.locator(".compare th", { hasText: "issue-1" }).locator(".tag", { hasText: "chosen" }).waitFor();

    const before = (await pageOf("by-hand")).row.run.checkpoints;
    await open(page, at("/r/shop/by-hand"));
    await applyPlan(page, "Save a checkpoint…", {
      command: "holdfast checkpoint by-hand",
    });
    expect((await pageOf("by-hand")).row.run.checkpoints).toBe(before + 1);
    // What the command refuses, the page refuses, with its reason.
    await page.locator("main details.menu > summary").click();
    await page.keyboard.press("Escape");
    await page.waitForSelector("main details.menu:not([open])");
    expect(page.url()).toBe(at("/r/shop/by-hand"));
    await page.locator("main details.menu > summary").click();
    await page.getByRole("button", { name: "Remove…" }).click();
    await page.waitForSelector("main details.menu:not([open])");
    await page.locator("dialog .problem", { hasText: "by-hand" }).waitFor();
    expect(await page.innerText("dialog h2")).toBe("by-hand cannot be removed yet");
    expect(await page.getByRole("button", { name: "Try again" }).count()).toBe(0);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("goes through every page by keyboard alone", async () => {
    const { page, context, surprises } = await visit(browser, server);
    const heading = (text: string): Promise<void> => page.locator("h1", { hasText: text }).waitFor();
    const focus = (): Promise<string> =>
      page.evaluate<string>("document.activeElement.closest('[data-row]')?.dataset.row ?? ''");
    const type = async (...keys: readonly string[]): Promise<void> => {
      for (const key of keys) await page.keyboard.press(key);
    };
    const command = async (words: string): Promise<void> => {
      await type("Control+k");
      await page.locator("dialog [role=combobox]").waitFor();
      await page.keyboard.type(words);
      await page.locator("[role=option][aria-selected=true]", { hasText: words }).waitFor();
      await type("Enter");
    };
    await open(page, at("/runs"));
    await type("/");
    await page.keyboard.type("other-way");
    await until(async () => (await page.locator("[data-row]").count()) === 1);
    expect(page.url()).toContain("q=other-way");
    while ((await focus()) !== "shop/other-way") await type("Tab");
    await type("x", "Escape");
    await until(async () => (await page.locator("[data-row]").count()) > 2);
    while ((await focus()) !== "shop/issue-1") await type("j");
    await type("x", "g", "c");
    await heading("Compare");
    await page.locator("table.compare").waitFor();
    await type("g", "i");
    await heading("Needs you");
    await type("g", "r");
    await heading("Runs");
    await page.waitForSelector(`[data-row="shop/issue-1"]`);
    while ((await focus()) !== "shop/issue-1") await type("j");
    await type("o");
    await page.waitForSelector(".checkpoint-lane");
    // A screen reader continues at the heading of the new page, also if that came late.
    expect(await page.evaluate("document.activeElement.tagName")).toBe("H1");
    const tabs = ["now", "changes", "conversation", "journal", "effects", "checks", "cost"];
    for (const [index, tab] of tabs.entries()) {
      await type(String(index + 1));
      await page.waitForSelector(`#tab-${tab}[aria-selected=true]`);
    }
    // Two points of the timeline, and the changes between them.
    await type("ArrowLeft", "[");
    await page.waitForSelector("#tab-changes[aria-selected=true]");
    await type("v", "n");
    await type("?");
    await page.locator("dialog h2", { hasText: "Everywhere" }).waitFor();
    await type("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await command("shop/by-hand");
    await page.waitForSelector(".checkpoint-lane");
    const before = (await pageOf("by-hand")).row.run.checkpoints;
    await command("Save a checkpoint");
    await page.waitForSelector("dialog .plan-lines");
    await type("Control+Enter");
    await applied(page);
    expect((await pageOf("by-hand")).row.run.checkpoints).toBe(before + 1);
    await command("Report");
    await page.waitForSelector(".report-story");
    await command("shop/by-hand");
    await page.waitForSelector(".checkpoint-lane");
    await type("J");
    await until(async () => !page.url().endsWith("/by-hand"));
    await page.waitForSelector(".checkpoint-lane");
    await type("Escape");
    await heading("Runs");
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("answers a question, raises a limit, aborts and removes", async () => {
    const agent = await place.agent([{ ...GOOD, when: { role: "impl", iteration: 1 }, finalize: undefined }, GOOD]);
    const begin = ["run", "--no-review", "--agent", agent];
    expect(await place.run(...begin, "--task", "Ask", "--gate", "exit 1")).toMatchObject({ status: 4 });
    expect(await place.run(...begin, "--task", "Spend", "--max-tokens", "1000")).toMatchObject({ status: 7 });
    const { page, context, surprises } = await visit(browser, server, { width: 390, dark: true });
    await open(page, at("/"));
    await expectText(page, "Needs you", "1 of 2", "The gate fails on main");
    await page.getByRole("radio", { name: "again" }).check();
    await page.getByLabel("Note, kept in the journal").fill("looked at it");
    await page.getByLabel("resume right away").uncheck();
    const asking = await shownRun(page);
    await applyPlan(page, "Answer…", { command: `holdfast approve ${asking} again '--note=looked at it'` });
    const { entries } = await place.json("events", asking, "--limit", "all");
    expect(JSON.stringify(entries)).toMatch(/"answer":"again".*\(page\).*looked at it|looked at it.*\(page\)/);

    await page.getByRole("radio", { name: /^Raise the limit to \d+ tokens/ }).check();
    const spending = await shownRun(page);
    await applyPlan(page, "Show the plan…", {
      command: `holdfast resume ${spending} --max-tokens 9000 --detach`,
      asks: "9000",
    });
    await until(async () => (await statusOf(spending)) === "done");
    await open(page, at(`/r/shop/${asking}`));
    await applyPlan(page, "Abort…", {
      command: `holdfast stop ${asking} --now`,
    });
    await shows(page, "aborted");
    await applyPlan(page, "Remove…", { command: `holdfast rm ${asking}` });
    // The page of a run that is gone shows nothing.
    await page.waitForURL(at("/runs"));
    await page.locator(".result", { hasText: "The run is removed." }).waitFor();
    const { runs } = await place.json("list", "--limit", "all");
    expect(runs.map(({ id }: { id: string }) => id)).not.toContain(asking);
    await open(page, at("/inbox"));
    await expectText(page, "Nothing needs you.");
    // An address whose file does not differ any more shows the list of files.
    await open(page, at("/r/shop/other-way/@base..worktree?file=gone.txt"));
    await page.getByRole("button", { name: "answer.txt" }).waitFor();
    // What a terminal removes goes without a reload.
    await open(page, at("/runs"));
    await page.waitForSelector(`[data-row="shop/${spending}"]`);
    await page.hover(`[data-row="shop/${spending}"]`);
    expect(await place.run("rm", spending, "--force")).toMatchObject({ status: 0 });
    await page.waitForSelector(`[data-row="shop/${spending}"]`, { state: "detached" });
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("has no finding of axe, and fits every width, theme and text size", { timeout: 600_000 }, async () => {
    const pages = [
      "/inbox",
      "/runs",
      "/r/shop/issue-1",
      "/r/shop/issue-1/@1..2",
      "/r/shop/issue-1/conversation",
      "/r/shop/issue-1/journal",
      "/r/shop/issue-1/entry/1",
      "/r/shop/issue-1/effects",
      "/r/shop/issue-1/checks",
      "/r/shop/issue-1/cost",
      `/r/shop/${team}/graph`,
      `/r/shop/${team}/team`,
      "/r/shop/issue-1/@2",
      "/r/shop/issue-1/@2?plane=state",
      "/r/shop/issue-1/@2?plane=conversation",
      "/r/shop/issue-1/@2?plane=effects",
      "/compare?a=shop/issue-1&b=shop/other-way",
      "/r/shop/other-way/report",
      "/r/shop/no-such-run",
      "/no/such/page",
    ];
    const found: string[] = [];
    const { page, context, surprises } = await visit(browser, server, { policy: false });
    for (const name of pages) {
      await open(page, at(name));
      if ((await page.locator("h1").count()) !== 1) found.push(`${name} has not one h1`);
      if (!name.includes("/no") && (await page.locator(".page-command code").count()) !== 1)
        found.push(`${name} does not show its command`);
      found.push(...(await axeEverywhere(page)));
      await page.evaluate("document.documentElement.style.fontSize = '200%'");
      if (await page.evaluate<boolean>("document.documentElement.scrollWidth > innerWidth"))
        found.push(`${name} with large text scrolls sideways`);
    }
    // What opens over a page.
    await open(page, at("/r/shop/issue-1/@1"));
    for (const [key, sheet] of [
      ["r", "dialog .plan-lines"],
      ["t", "dialog input[type=text]"],
      ["?", "dialog .keys"],
      ["Control+k", "dialog [role=option]"],
    ] as const) {
      await page.keyboard.press(key);
      await page.locator(sheet).first().waitFor();
      found.push(...(await axeEverywhere(page)));
      await page.keyboard.press("Escape");
      await page.waitForSelector("dialog", { state: "detached" });
    }
    await context.close();
    expect([...found, ...surprises]).toEqual([]);
  });

  test("tells statuses apart without colours", async () => {
    const { page, context, surprises } = await visit(browser, server);
    await page.emulateMedia({ forcedColors: "active", reducedMotion: "reduce" });
    await open(page, at("/runs"));
    const chips = page.locator("[data-row] .chip");
    for (const chip of await chips.all()) {
      expect((await chip.innerText()).trim()).not.toBe("");
      expect(await chip.locator("svg").count()).toBe(1);
    }
    await open(page, at("/r/shop/issue-1"));
    await page.waitForSelector(".lane-bars .span");
    const fills = await page.evaluate<readonly string[]>(
      `[...document.querySelectorAll(".lane-bars .span")].map((span) => getComputedStyle(span).fill)`,
    );
    // An interrupted stage has an outline only.
    const [text, paper] = [await systemColor(page, "CanvasText"), await systemColor(page, "Canvas")];
    expect(new Set(fills)).toEqual(new Set([text, paper]));
    expect(await page.locator(".crash path").count()).toBeGreaterThan(0);
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("continues by itself after its server was killed and started again", async () => {
    const { page, context, surprises } = await visit(browser, server);
    await open(page, at("/runs"));
    await page.evaluate("window.loaded = 1");
    await page.waitForSelector(".live[data-state=live]");
    const { port } = server;
    server.child.kill("SIGKILL");
    await page.waitForSelector(".live[data-state=old]");
    expect(await page.innerText(".live")).toMatch(/^reconnecting, as of \d/);
    const args = ["--port", String(port)];
    server = await startPage(place.holdfast, { cwd: place.clone, args });
    // The new server does not know this tab, which says so, and what to type.
    await expectText(page, "The server of this page was restarted.", "holdfast ui");
    // The browser tab that the new server opens passes its session on.
    const { url } = await place.json("ui", "--no-open");
    await (await context.newPage()).goto(url);
    await page.waitForSelector(".live[data-state=live]");
    await place.json("tag", "issue-1@1", "again");
    await page.click(`[data-row="shop/issue-1"] .row-link`);
    await page.waitForSelector(".checkpoint-lane");
    expect(await page.evaluate("window.loaded")).toBe(1);
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("is small: the first load is at most 60 kB, each later part at most 20 kB", async () => {
    const folder = join(place.holdfast.directory, "dist/cli/ui");
    const html = await readFile(join(folder, "index.html"), "utf8");
    const sizes = await Promise.all(
      (await readdir(join(folder, "assets"))).map(async (name) => ({
        name,
        first: html.includes(name),
        size: gzipSync(await readFile(join(folder, "assets", name)), { level: 9 }).length,
      })),
    );
    const firstLoad = sizes.filter(({ first }) => first).reduce((sum, { size }) => sum + size, gzipSync(html).length);
    expect(firstLoad).toBeLessThanOrEqual(60_000);
    expect(sizes.filter(({ first, size }) => !first && size > 20_000)).toEqual([]);
    expect(sizes.filter(({ first, name }) => first && /\.(?:js|css)$/.test(name))).toHaveLength(2);
    expect(html).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\bstyle=|data:/);
  });
});

function tagsOf({ tags }: { readonly tags: readonly string[] }): readonly string[] {
  return tags;
}

/** The run of the question that the inbox shows. */
async function shownRun(page: Page): Promise<string> {
  return (await page.innerText(".page-command code")).split(" ").at(-1) ?? "";
}

function systemColor(page: Page, name: string): Promise<string> {
  return page.evaluate<string>(
    `(() => { document.body.style.color = "${name}"; return getComputedStyle(document.body).color; })()`,
  );
}
