/** A real browser for the tests of the page of `holdfast ui`. */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout } from "node:timers/promises";
import { type Browser, type BrowserContext, type Page, chromium } from "playwright-core";
import { expect } from "vitest";
import type { PageServer } from "./page-server.ts";

const BROWSER = process.env["HOLDFAST_TEST_BROWSER"] ?? "/usr/bin/chromium-headless-shell";
/** Why the tests cannot run; null: they can. */
export const noBrowser = existsSync(BROWSER) ? null : `no browser at ${BROWSER}; set HOLDFAST_TEST_BROWSER`;

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export function launch(...flags: readonly string[]): Promise<Browser> {
  return chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox", "--disable-dev-shm-usage", ...flags] });
}

export interface Visit {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Errors of scripts and of the policy, dialogs, and requests to other places. */
  readonly surprises: string[];
}

/** A tab with a session. `policy: false` lets a test inject its own script. */
export async function visit(
  browser: Browser,
  server: Pick<PageServer, "origin" | "token">,
  look: { readonly width?: number; readonly dark?: boolean; readonly policy?: boolean } = {},
): Promise<Visit> {
  const { width = 1280, dark = false, policy = true } = look;
  const context = await browser.newContext({
    viewport: { width, height: 800 },
    colorScheme: dark ? "dark" : "light",
    bypassCSP: !policy,
  });
  await context.addInitScript(`sessionStorage.getItem("holdfast.token") ??
    sessionStorage.setItem("holdfast.token", ${JSON.stringify(server.token)})`);
  const page = await context.newPage();
  // Only the time of a test limits it: a busy machine draws a long page slowly.
  page.setDefaultTimeout(300_000);
  const surprises: string[] = [];
  page.on("pageerror", (error) => surprises.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    surprises.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource|ERR_/.test(message.text()))
      surprises.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(server.origin)) surprises.push(`request: ${request.url()}`);
  });
  return { page, context, surprises };
}

/** Opens an address of the page, and waits until nothing is being loaded. */
export async function open(page: Page, url: string): Promise<void> {
  await page.goto(url);
  await page.waitForSelector("main h1");
  await page.waitForSelector("main .skeleton", { state: "detached" });
}

/** What breaks the rules of WCAG 2.2 AA on the page that is shown. `rules`: only these. */
async function violations(page: Page, rules?: readonly string[]): Promise<readonly string[]> {
  if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(AXE);
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const runOnly = JSON.stringify(rules ?? tags);
  return await page.evaluate<
    readonly string[]
  >(`axe.run({ runOnly: ${runOnly}, resultTypes: ["violations"], iframes: false, preload: false }).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html.slice(0, 120)).join(" | ")))`);
}

/**
 * What breaks the rules on the page that is shown, at both widths, light and dark. Only contrast depends on the theme. Afterwards the page is wide
 * and light.
 */
export async function axeEverywhere(page: Page): Promise<string[]> {
  const found: string[] = [];
  for (const [width, colorScheme, rules] of [
    [390, "light", ["color-contrast"]],
    [390, "dark", undefined],
    [1280, "dark", ["color-contrast"]],
    [1280, "light", undefined],
  ] as const) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    if (await page.evaluate<boolean>("document.documentElement.scrollWidth > innerWidth"))
      found.push(`${page.url()} at ${width} scrolls sideways`);
    for (const text of await violations(page, rules)) found.push(`${page.url()} at ${width}, ${colorScheme}: ${text}`);
  }
  return found;
}

/** Presses a button that has a plan, answers what it asks first, compares the command of the plan, and applies it. */
export async function applyPlan(
  page: Page,
  button: string,
  { command, asks }: { readonly command: string; readonly asks?: string },
): Promise<void> {
  const menu = page.locator("main details.menu:not([open]) > summary");
  if (!(await page.getByRole("button", { name: button }).first().isVisible())) await menu.click();
  await page.getByRole("button", { name: button }).first().click();
  if (asks !== undefined) {
    await page.locator("dialog input[type=text]").fill(asks);
    await page.getByRole("button", { name: "Show the plan", exact: true }).click();
  }
  await page.waitForSelector("dialog .plan-lines");
  // It names its repository, so that it works wherever it is pasted.
  const shown = await page.innerText("dialog .command code");
  expect(shown).toMatch(/^holdfast --cwd \S+ /);
  expect(shown.replaceAll(/ --cwd \S+/g, "")).toBe(command);
  await page.locator("dialog .sheet-end .primary").click();
  await applied(page);
}

/** Waits until the sheet has closed itself. It stays open with the problem if the command failed. */
export async function applied(page: Page): Promise<void> {
  await page.waitForSelector("dialog:not(:has(.problem, .notice))", { state: "detached" });
  expect(await page.locator("dialog").allInnerTexts()).toEqual([]);
}

/** Waits for texts. The error has the text that is there instead. */
export async function expectText(page: Page, ...texts: readonly string[]): Promise<void> {
  for (const text of texts)
    try {
      await page.locator("main", { hasText: text }).waitFor();
    } catch {
      throw new Error(`no ${JSON.stringify(text)} in ${(await page.innerText("main")).slice(0, 2000)}`);
    }
}

/** Waits until a condition holds. The policy of the page forbids the polling that the browser could do itself. */
export async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await setTimeout(50);
}
