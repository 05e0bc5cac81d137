import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { CheckpointPage, RunPage } from "@holdfast/dashboard/api";
import { type BuiltCommand, buildCommand } from "@holdfast/test-support/built-command";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { applyPlan, expectText, launch, noBrowser, open, until, visit } from "./browser.ts";
import { type PageServer, startPage } from "./page-server.ts";

/** What a newcomer sees first: the kept demo, a fork of it that asks, and a run that works. */

const AGENT = `command:node -e 'console.log("reading the code"); setInterval(() => 0, 1000)'`;

describe.skipIf(noBrowser !== null)(`the demo on the page${noBrowser === null ? "" : ` (${noBrowser})`}`, () => {
  let holdfast: BuiltCommand;
  let browser: Browser;
  let server: PageServer;
  let greeter: string;
  const run = async (...args: readonly string[]) => {
    const { stdout } = await holdfast.run(args, { cwd: greeter });
    return JSON.parse(stdout);
  };
  beforeAll(async () => {
    [holdfast, browser] = await Promise.all([buildCommand(), launch()]);
    const home = join(holdfast.directory, "demo");
    await mkdir(home);
    const made = await holdfast.run(["demo", "--seed", "7", "--keep", "--json"], { cwd: home, env: { TMPDIR: home } });
    greeter = join(JSON.parse(made.stdout).directory, "demo", "greeter");
    await run("fork", "issue-1@3", "--as", "second-try", "--json");
    // It asks before its first push.
    expect((await holdfast.run(["resume", "second-try"], { cwd: greeter })).status).toBe(4);
    server = await startPage(holdfast, { cwd: greeter, args: ["--here"] });
  }, 240_000);
  afterAll(async () => {
    await browser?.close();
    await server?.[Symbol.asyncDispose]();
    await holdfast?.remove();
  });

  /** On the screen without a click or a scroll. */
  const isOnScreen = async (page: Page, text: string): Promise<boolean> => {
    const height = page.viewportSize()?.height ?? 0;
    for (const one of await page.getByText(text).all()) {
      const box = (await one.isVisible()) ? await one.boundingBox() : null;
      if (box !== null && box.y >= 0 && box.y + box.height <= height) return true;
    }
    return false;
  };

  test.each([[1280], [390]])(
    "at %i px the kills are marks, and the first questions are answered without a click",
    async (width) => {
      const { page, context, surprises } = await visit(browser, server, { width });
      const shows = (text: string): Promise<void> => until(() => isOnScreen(page, text));
      await open(page, server.origin);
      // Does anything wait for me, and why?
      expect(await page.title()).toMatch(/^\(1\) /);
      await shows("Needs you");
      await shows("May it push and publish?");
      await open(page, `${server.origin}/r/greeter/second-try`);
      await shows("waiting for you");
      await shows("Why it stopped");
      await shows("May it push and publish?");
      await open(page, `${server.origin}/r/greeter/issue-1`);
      await shows("survived 3");
      if (width === 1280) expect(await page.locator(".lane-bars .crash").count()).toBe(3);
      else expect(await page.locator(".story .kind-crash").count()).toBe(3);
      expect(surprises).toEqual([]);
      await context.close();
    },
  );

  test("what a run does now is answered without a click, and each bar has a pattern", async () => {
    const child = holdfast.start(["run", "--task", "Trim the name", "--agent", AGENT, "--no-review"], {
      cwd: greeter,
    });
    const ended = new Promise((resolve) => child.once("close", resolve));
    for (const width of [1280, 390]) {
      const { page, context, surprises } = await visit(browser, server, { width });
      const shows = (text: string): Promise<void> => until(() => isOnScreen(page, text));
      await open(page, `${server.origin}/runs`);
      await page.locator("[data-state=running] .row-said", { hasText: "reading the code" }).waitFor();
      await page.click("[data-state=running] .row-link");
      await shows("impl #1 · agent");
      await shows("heartbeat");
      await expectText(page, "reading the code");
      if (width === 1280) expect(await unpatterned(page)).toEqual([]);
      expect(surprises).toEqual([]);
      await context.close();
    }
    child.kill("SIGTERM");
    await ended;
    const { page, context } = await visit(browser, server);
    await open(page, `${server.origin}/r/greeter/issue-1`);
    await page.waitForSelector(".bar-failed", { state: "attached" });
    expect(await unpatterned(page)).toEqual([]);
    await context.close();
  });

  test("a restore and its undo leave the files and the journal of the same commands", async () => {
    const latest = async (): Promise<number> =>
      (await server.get<RunPage>("/api/runs/greeter/issue-1")).row.run.latest?.sequence ?? 0;
    const treeOf = async (): Promise<string | undefined> =>
      (await server.get<CheckpointPage>(`/api/runs/greeter/issue-1/checkpoints/${await latest()}`)).files?.tree;
    const entries = async (after: number): Promise<readonly { readonly kind: string }[]> =>
      (await run("events", "issue-1", "--after", String(after), "--limit", "all", "--json")).entries;
    const before = await treeOf();
    const first = (await entries(0)).length;
    const { page, context, surprises } = await visit(browser, server);
    await open(page, `${server.origin}/r/greeter/issue-1/@3`);
    await applyPlan(page, "Restore to here…", { command: "holdfast restore issue-1@3 --yes" });
    expect(await treeOf()).not.toBe(before);
    await open(page, `${server.origin}/r/greeter/issue-1`);
    const saved = /saved before as @(\d+)/.exec(await page.innerText(".undo-strip"))?.[1] ?? "";
    await applyPlan(page, "Undo…", { command: `holdfast restore issue-1@${saved} --yes` });
    expect(await treeOf()).toBe(before);
    const byPage = (await entries(first)).map(({ kind }) => kind);
    await run("restore", "issue-1@3", "--yes", "--json");
    const { checkpoints } = await run("list", "issue-1", "--limit", "2", "--json");
    await run("restore", checkpoints[1].id, "--yes", "--json");
    expect(await treeOf()).toBe(before);
    const byCommand = (await entries(first + byPage.length)).map(({ kind }) => kind);
    expect(byPage).toEqual(byCommand);
    expect(byPage).toContain("restore.finished");
    expect(surprises).toEqual([]);
    await context.close();
  });
});

/** Bars that only their colour tells apart. */
function unpatterned(page: Page): Promise<readonly string[]> {
  const marks = { done: "g", failed: ".end-mark", interrupted: "[fill='url(#hatch)']", open: ".edge" };
  return page.evaluate<readonly string[]>(`Object.entries(${JSON.stringify(marks)}).flatMap(([result, mark]) =>
    [...document.querySelectorAll("[data-result=" + result + "]")]
      .filter((bar) => result !== "done" && bar.querySelector(mark) === null).map((bar) => bar.outerHTML))`);
}
