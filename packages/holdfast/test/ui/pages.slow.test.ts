import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { RunPage } from "@holdfast/dashboard/api";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { applied, applyPlan, expectText, launch, noBrowser, open, until, violations, visit } from "./browser.ts";
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
  beforeAll(async () => {
    place = await work.begin();
    // A command that wrote to a store puts its repository on the list.
    await place.json("checkpoint", "--run", "by-hand", "--name", "one");
    [server, browser] = await Promise.all([startPage(place.holdfast, { cwd: place.clone }), launch()]);
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await server?.[Symbol.asyncDispose]();
  });

  const at = (path: string): string => `${server.origin}${path}`;
  const pageOf = (id: string): Promise<RunPage> => server.get<RunPage>(`/api/runs/shop/${id}`);
  const statusOf = async (id: string): Promise<string> => (await place.json("status", id)).run.status.kind;
  const shows = (page: Page, state: string): Promise<unknown> =>
    page.waitForSelector(`.facts [data-state=${state}]`, { timeout: 60_000 });

  test("tells a newcomer what to type", { timeout: 120_000 }, async () => {
    const home = join(place.holdfast.directory, "newcomer");
    await mkdir(home);
    await using empty = await startPage(place.holdfast, { cwd: home, env: { HOME: home, XDG_STATE_HOME: home } });
    const { page, context, surprises } = await visit(browser, empty);
    await open(page, empty.origin);
    await expectText(page, "No runs yet.", "holdfast run 42", "holdfast demo --keep");
    // A browser without a session sees how to get one.
    await page.evaluate("sessionStorage.setItem('holdfast.token', 'another')");
    await page.reload();
    await expectText(page, "This browser has no session", "holdfast ui");
    expect(surprises).toEqual([]);
    await context.close();
  });

  test(
    "follows a run that is paused, resumed, killed and resumed, without a reload",
    { timeout: 240_000 },
    async () => {
      const agent = await place.agent([{ when: { role: "impl" }, edits: GOOD.edits, hang: true }]);
      const { page, context, surprises } = await visit(browser, server);
      await open(page, at("/runs"));
      await expectText(page, "saved");
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
      await page.getByRole("radio", { name: "Resume" }).check();
      await applyPlan(page, "Show the plan…", { command: "holdfast resume issue-1 --detach" });
      await shows(page, "done");
      await expectText(page, "survived 1");
      expect(await page.locator(".crash").count()).toBe(1);
      expect(await page.evaluate("window.loaded")).toBe(1);
      expect(await page.title()).toBe("shop/issue-1 · Holdfast");
      const { entries } = await place.json("events", "issue-1", "--limit", "all");
      expect(JSON.stringify(entries)).toMatch(/\(page\)/);
      expect(surprises).toEqual([]);
      await context.close();
    },
  );

  test(
    "shows hostile text as text, and stays small with much output and large diffs",
    { timeout: 240_000 },
    async () => {
      await writeFile(join(place.clone, "..", "talker.cjs"), TALKER);
      const talker = `command:node ${join(place.clone, "..", "talker.cjs")}`;
      const loopOf = ["run", "--workflow", "ralph", "--until", "test -e said.txt"];
      const talked = await place.run(...loopOf, "--task", HOSTILE, "--agent", talker);
      expect(talked.status, talked.stdout.slice(-2000) + talked.stderr).toBe(0);
      const { runs } = await place.json("list", "--limit", "all");
      const loop: string = runs.find(({ workflow }: { workflow: string }) => workflow === "ralph").id;
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
      await page.getByRole("button", { name: `many/${FILES - 1}.ts` }).click();
      await expectText(page, `export const a${LINES - 1} = "${FILES - 1}";`);
      expect(await elements()).toBeLessThan(MOST_ELEMENTS);
      await open(page, at(`/r/shop/${loop}/@1..5?file=said.txt`));
      await expectText(page, "The rest of this diff is left out");
      expect(await elements()).toBeLessThan(MOST_ELEMENTS);
      expect(await page.locator("main img, main script, main a[href^=javascript]").count()).toBe(0);
      expect(surprises).toEqual([]);
      await context.close();
    },
  );

  test(
    "restores and undoes by keyboard alone, and shows what changed since the plan",
    { timeout: 240_000 },
    async () => {
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
      expect(await page.innerText("dialog")).toContain("holdfast restore issue-1@1 --yes");
      expect(await answer()).toBe("42\n");
      // The world moves: nothing happens, and the sheet marks what is different.
      await writeFile(join(worktree, "later.txt"), "later\n");
      await page.keyboard.press("Control+Enter");
      await page.waitForSelector("dialog .notice", { timeout: 60_000 });
      expect(await page.innerText("dialog .new-line:has-text('later')")).toBe("− later.txt");
      expect(await answer()).toBe("42\n");
      await page.keyboard.press("Control+Enter");
      await page.waitForSelector("dialog", { state: "detached", timeout: 60_000 });
      expect(await answer()).toBe("none");

      await page.keyboard.press("Escape");
      await page.waitForSelector(".undo-strip");
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
      expect(surprises).toEqual([]);
      await context.close();
    },
  );

  test("tags, forks, copies a file, chooses and saves", { timeout: 240_000 }, async () => {
    const { page, context, surprises } = await visit(browser, server);
    await open(page, at("/r/shop/issue-1/@2"));
    await applyPlan(page, "Tag…", { command: "holdfast tag issue-1@2 good", asks: "good" });
    expect((await place.json("list", "issue-1", "--limit", "all")).checkpoints.flatMap(tagsOf)).toContain("good");
    await page.locator(".tag", { hasText: "good" }).waitFor();
    await applyPlan(page, "Remove the tag good", { command: "holdfast tag issue-1 good --delete" });
    await page.waitForSelector(".tag", { state: "detached" });

    await applyPlan(page, "Fork from here…", {
      command: "holdfast fork issue-1@2 --as other-way",
      asks: "other-way",
    });
    const { worktree } = await pageOf("other-way");
    await open(page, at("/compare?a=shop/issue-1&b=shop/other-way"));
    await expectText(page, "They share checkpoint issue-1@2");
    await page.getByRole("button", { name: "answer.txt" }).click();
    const { latest } = (await pageOf("issue-1")).row.run;
    await applyPlan(page, "Copy this file into other-way…", {
      command: `holdfast cherry-pick issue-1@${latest?.sequence} answer.txt --into other-way`,
    });
    expect(await readFile(join(worktree ?? "", "answer.txt"), "utf8")).toBe("42\n");
    await applyPlan(page, "Choose issue-1…", { command: "holdfast compare issue-1 other-way --choose issue-1" });
    expect((await place.json("list", "issue-1", "--limit", "all")).checkpoints.flatMap(tagsOf)).toContain("chosen");

    const before = (await pageOf("by-hand")).row.run.checkpoints;
    await open(page, at("/r/shop/by-hand"));
    await applyPlan(page, "Save a checkpoint…", {
      command: "holdfast checkpoint by-hand --name 'saved on the page'",
    });
    expect((await pageOf("by-hand")).row.run.checkpoints).toBe(before + 1);
    // What the command refuses, the page refuses, with its reason.
    await page.locator("details.menu > summary").click();
    await page.getByRole("button", { name: "Remove…" }).click();
    await page.locator("dialog .problem", { hasText: "by-hand" }).waitFor();
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("answers a question, raises a limit, aborts and removes", { timeout: 240_000 }, async () => {
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
      command: `holdfast stop ${asking} --now --reason 'aborted on the page'`,
    });
    await shows(page, "aborted");
    await applyPlan(page, "Remove…", { command: `holdfast rm ${asking}` });
    await expectText(page, `Run ${asking} was removed`);
    const { runs } = await place.json("list", "--limit", "all");
    expect(runs.map(({ id }: { id: string }) => id)).not.toContain(asking);
    await open(page, at("/inbox"));
    await expectText(page, "Nothing needs you.");
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
      "/r/shop/issue-1/@2",
      "/r/shop/issue-1/@2?plane=state",
      "/r/shop/issue-1/@2?plane=conversation",
      "/compare?a=shop/issue-1&b=shop/other-way",
      "/r/shop/other-way/report",
      "/r/shop/no-such-run",
      "/no/such/page",
    ].map((name) => ({ name }));
    const phone = sampleBySeed(pages, 3);
    const found: string[] = [];
    const { page, context, surprises } = await visit(browser, server, { policy: false });
    const fits = async (name: string): Promise<void> => {
      if (await page.evaluate<boolean>("document.documentElement.scrollWidth > innerWidth"))
        found.push(`${name} scrolls sideways`);
    };
    for (const one of pages) {
      const { name } = one;
      await open(page, at(name));
      const add = (look: string, texts: readonly string[]): unknown =>
        found.push(...texts.map((text) => `${name} ${look}: ${text}`));
      add("light", await violations(page));
      await fits(name);
      if ((await page.locator("h1").count()) !== 1) add("light", ["has not one h1"]);
      if (!name.includes("/no") && (await page.locator(".page-command code").count()) !== 1)
        add("light", ["does not show its command"]);
      await page.emulateMedia({ colorScheme: "dark" });
      add("dark", await violations(page, ["color-contrast"]));
      await page.setViewportSize({ width: 390, height: 800 });
      await fits(`${name} at 390`);
      if (phone.includes(one)) add("390 dark", await violations(page));
      await page.setViewportSize({ width: 1280, height: 800 });
      await page.evaluate("document.documentElement.style.fontSize = '200%'");
      await fits(`${name} with large text`);
      await page.emulateMedia({ colorScheme: "light" });
    }
    await context.close();
    expect([...found, ...surprises]).toEqual([]);
  });

  test("tells statuses apart without colours", { timeout: 120_000 }, async () => {
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

  test("continues by itself after its server was killed and started again", { timeout: 240_000 }, async () => {
    const { page, context, surprises } = await visit(browser, server);
    await open(page, at("/runs"));
    await page.evaluate("window.loaded = 1");
    await page.waitForSelector(".live[data-state=live]");
    const { port } = server;
    server.child.kill("SIGKILL");
    await page.waitForSelector(".live[data-state=old]", { timeout: 60_000 });
    expect(await page.innerText(".live")).toMatch(/^reconnecting, as of \d/);
    const args = ["--port", String(port)];
    server = await startPage(place.holdfast, { cwd: place.clone, args });
    // The new server does not know this tab, which says so, and what to type.
    await expectText(page, "The server of this page was restarted.", "holdfast ui");
    // The browser tab that the new server opens passes its session on.
    const { url } = await place.json("ui", "--no-open");
    await (await context.newPage()).goto(url);
    await page.waitForSelector(".live[data-state=live]", { timeout: 60_000 });
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
  return (await page.innerText(".page-command code")).replace("holdfast status ", "");
}

function systemColor(page: Page, name: string): Promise<string> {
  return page.evaluate<string>(
    `(() => { document.body.style.color = "${name}"; return getComputedStyle(document.body).color; })()`,
  );
}
