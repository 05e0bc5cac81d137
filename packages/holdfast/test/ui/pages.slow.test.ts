import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { RunPage } from "@holdfast/dashboard/api";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectText, launch, noBrowser, open, until, violations, visit } from "./browser.ts";
import { type PageServer, startPage } from "./page-server.ts";

/** The page in a real browser, against the real server, over a run that a scripted agent made. */

const work = workSuite();
/** Text that must stay text: markup, a change of direction, and commands to a terminal. */
const HOSTILE = `<img src=x onerror="alert(1)"> \u202egnp.exe \u001b]0;owned\u0007\u001b[31mred\u001b[0m javascript:alert(2)`;
const FILE = "<script>alert(3)<-script>.js";

describe.skipIf(noBrowser !== null)(`the page${noBrowser === null ? "" : ` (${noBrowser})`}`, () => {
  let place: WorkPlace;
  let server: PageServer;
  let browser: Browser;
  beforeAll(async () => {
    place = await work.begin();
    // A command that wrote to a store puts its repository on the list.
    await place.json("checkpoint", "--run", "by-hand", "--name", "one");
    server = await startPage(place.holdfast, { cwd: place.clone });
    browser = await launch();
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await server?.[Symbol.asyncDispose]();
  });

  const at = (path: string): string => `${server.origin}${path}`;

  test("follows a run that is killed and resumed, without a reload", { timeout: 240_000 }, async () => {
    const agent = await place.agent([{ when: { role: "impl" }, edits: GOOD.edits, hang: true }]);
    const { page, context, surprises } = await visit(browser, server);
    await open(page, at("/runs"));
    await expectText(page, "saved");
    await page.evaluate("window.loaded = 1");

    const first = place.start("run", "1", "--no-review", "--agent", agent);
    await page.waitForSelector(`[data-row="shop/issue-1"] [data-state="running"]`);
    await page.click(`[data-row="shop/issue-1"] .row-link`);
    await page.waitForSelector(".facts [data-state=running]");
    await expectText(page, "heartbeat", "impl #1");
    await page.waitForSelector(".lane[data-kind=stage] .bar-open", { state: "attached" });
    first.child.kill("SIGKILL");
    await page.waitForSelector(".facts [data-state=crashed]", { timeout: 60_000 });
    await until(async () => (await page.title()).startsWith("(1) "));

    await place.agent([
      {
        ...GOOD,
        reply: HOSTILE,
        edits: [...GOOD.edits, { do: "write", path: FILE, text: `const a = 1; // ${HOSTILE}\n` }],
      },
    ]);
    const resumed = await place.run("resume", "issue-1");
    expect(resumed.status, resumed.stdout + resumed.stderr).toBe(0);
    await page.waitForSelector(".facts [data-state=done]", { timeout: 60_000 });
    await expectText(page, "survived 1");
    expect(await page.locator(".crash").count()).toBe(1);
    expect(await page.evaluate("window.loaded")).toBe(1);
    expect(await page.title()).toBe("shop/issue-1 · Holdfast");
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("shows hostile text as text", { timeout: 120_000 }, async () => {
    const { page, context, surprises } = await visit(browser, server);
    await open(page, at("/r/shop/issue-1"));
    await expectText(page, "<img src=x onerror=", "U+202E", "javascript:alert(2)");
    await open(page, at("/r/shop/issue-1/@base..worktree"));
    await expectText(page, FILE);
    await page.getByRole("button", { name: FILE }).click();
    await expectText(page, "const a = 1;", '<img src=x onerror="alert(1)">', "U+202E", "U+001B");
    expect(await page.locator("main img, main script, main a[href^=javascript]").count()).toBe(0);
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("restores and undoes by keyboard alone", { timeout: 240_000 }, async () => {
    const worktree = (await server.get<RunPage>("/api/runs/shop/issue-1")).worktree ?? "";
    const answer = (): Promise<string> => readFile(join(worktree, "answer.txt"), "utf8").catch(() => "none");
    expect(await answer()).toBe("42\n");
    const { page, context, surprises } = await visit(browser, server);
    await open(page, at("/runs"));
    await page.waitForSelector(`[data-row="shop/issue-1"]`);
    await page.keyboard.press("j");
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
    await page.waitForSelector("dialog", { state: "detached", timeout: 60_000 });
    expect(await answer()).toBe("42\n");
    await page.keyboard.press("+");
    await page.waitForSelector(".timeline.zoomed");
    await page.keyboard.press("0");
    await page.waitForSelector(".timeline:not(.zoomed)");
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("has no finding of axe, and no page scrolls sideways", { timeout: 600_000 }, async () => {
    await place.json("fork", "issue-1@2", "--as", "other-way");
    await place.json("tag", "issue-1@2", "good");
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
      "/r/shop/issue-1/report",
      "/r/shop/no-such-run",
      "/no/such/page",
    ].map((name) => ({ name }));
    const looks = [
      { width: 1280, dark: false, shown: pages },
      { width: 390, dark: true, shown: pages },
      { width: 1280, dark: true, shown: sampleBySeed(pages, 3) },
      { width: 390, dark: false, shown: sampleBySeed(pages, 3) },
    ];
    const found: string[] = [];
    for (const { width, dark, shown } of looks) {
      const { page, context, surprises } = await visit(browser, server, { width, dark, policy: false });
      for (const { name: path } of shown) {
        await open(page, at(path));
        const name = `${path} ${width} ${dark ? "dark" : "light"}`;
        found.push(...(await violations(page)).map((text) => `${name}: ${text}`));
        if (await page.evaluate<boolean>("document.documentElement.scrollWidth > innerWidth"))
          found.push(`${name} scrolls sideways`);
        if ((await page.locator("h1").count()) !== 1) found.push(`${name} has not one h1`);
      }
      found.push(...surprises);
      await context.close();
    }
    expect(found).toEqual([]);
  });

  test("continues by itself after its server was killed and started again", { timeout: 240_000 }, async () => {
    const { page, context, surprises } = await visit(browser, server);
    await open(page, at("/runs"));
    await page.evaluate("window.loaded = 1");
    await page.waitForSelector(".live[data-state=live]");
    const { port } = server;
    server.child.kill("SIGKILL");
    await page.waitForSelector(".live[data-state=old]", { timeout: 60_000 });
    const args = ["--port", String(port)];
    server = await startPage(place.holdfast, { cwd: place.clone, args });
    // The browser tab that the new server opens passes its session on.
    const other = await context.newPage();
    await other.addInitScript(`sessionStorage.setItem("holdfast.token", ${JSON.stringify(server.token)})`);
    await other.goto(at("/runs"));
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
