import { mkdir, writeFile } from "node:fs/promises";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import { sha256 } from "@holdfast/core/json";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openHoldfast } from "../../src/open.ts";
import { expectText, launch, noBrowser, open, until, visit } from "./browser.ts";
import { startPage } from "./page-server.ts";

/** What a browser does beyond one tab of one server: other tabs, other names and addresses, and its own policy. */

describe.skipIf(noBrowser !== null)(`tabs${noBrowser === null ? "" : ` (${noBrowser})`}`, () => {
  let journey: Journey;
  let browser: Browser;
  beforeAll(async () => {
    // A name that a hostile site points to this machine.
    [journey, browser] = await Promise.all([
      startJourney(),
      launch("--host-resolver-rules=MAP evil.example 127.0.0.1"),
    ]);
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await journey?.holdfast.remove();
  });
  beforeEach(async () => {
    await journey.begin();
    await journey.json("checkpoint", "--run", "work", "--name", "one");
  });

  test("two tabs of a server that was replaced ask once each, and say so", async () => {
    const cwd = journey.repository();
    const first = await startPage(journey.holdfast, { cwd, args: ["--here"] });
    await using _first = first;
    const { page, context } = await visit(browser, first);
    await open(page, `${first.origin}/runs`);
    const other = await context.newPage();
    await open(other, `${first.origin}/runs`);
    const gone = new Promise((resolve) => first.child.once("close", resolve));
    first.child.kill("SIGKILL");
    await gone;
    let requests = 0;
    for (const tab of [page, other]) tab.on("response", () => (requests += 1));
    await using _next = await startPage(journey.holdfast, { cwd, args: ["--here", "--port", String(first.port)] });
    for (const tab of [page, other]) await expectText(tab, "The server of this page was restarted.");
    await sleep(2000);
    // Neither asks on with the token of the server that has ended.
    expect(requests).toBeLessThan(10);
    await context.close();
  });

  test("the page works at an address beyond this machine, too", async () => {
    const [outside] = Object.values(networkInterfaces())
      .flat()
      .filter((one) => one !== undefined && !one.internal && one.family === "IPv4");
    // Without a network there is no such address.
    if (outside === undefined) return;
    const token = "t".repeat(40);
    await using server = await startPage(journey.holdfast, {
      cwd: journey.repository(),
      args: ["--here", "--host", outside.address],
      env: { HOLDFAST_UI_TOKEN: token },
    });
    const { page, context, surprises } = await visit(browser, server);
    await open(page, `${server.origin}/runs`);
    expect(await page.evaluate("isSecureContext")).toBe(false);
    await page.waitForSelector(`[data-row="repo-2/work"]`);
    await page.waitForSelector(".live[data-state=live]");
    await journey.json("checkpoint", "--run", "live", "--name", "one");
    await page.waitForSelector(`[data-row="repo-2/live"]`);
    // The browser says that it has no use for one of the headers there.
    expect(surprises.filter((text) => !text.includes("Cross-Origin-Opener-Policy"))).toEqual([]);
    await context.close();
  });

  test("a hostile name reaches nothing, and no text becomes markup", async () => {
    await using server = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
    const { page, context } = await visit(browser, server);
    for (const path of ["/", "/api/boot", "/assets/none.js"]) {
      const answer = await page.goto(`http://evil.example:${server.port}${path}`);
      expect(answer?.status(), path).toBe(421);
    }
    await open(page, `${server.origin}/runs`);
    for (const sink of [
      "document.body.innerHTML = '<b>x</b>'",
      "document.write('x')",
      "document.createElement('script').src = '/x.js'",
    ])
      await expect(page.evaluate(`(() => { try { ${sink} } catch { return "refused" } })()`), sink).resolves.toBe(
        "refused",
      );
    await context.close();
  });

  test("a run that was put off waits no longer, until something happens to it", async () => {
    const ask = async (question: string): Promise<void> => {
      await using holdfast = await openHoldfast({ cwd: journey.repository() });
      const { store } = holdfast;
      const birth = { workflow: "impl", work: { kind: "task", text: "Ask" } } as const;
      const lease = await store.takeLease({ run: "asks", birth, label: "test" });
      const decision = { name: "go", question, options: ["yes", "no"] };
      const body = { for: "you", reason: "asks", until: null, decision };
      const checkpoint = { trigger: "stage", planes: emptyPlanes({ workflow: "impl", stage: "impl" }) } as const;
      await store.commit({ lease, entries: [{ kind: "run.waiting", body }], checkpoint });
      await store.releaseLease(lease);
    };
    await ask("Continue?");
    await using server = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
    const { page, context, surprises } = await visit(browser, server);
    await open(page, `${server.origin}/`);
    await page.locator("h1", { hasText: "Needs you" }).waitFor();
    expect(await page.title()).toMatch(/^\(1\) /);
    await page.getByRole("button", { name: "Later" }).click();
    await expectText(page, "Nothing needs you.", "Show 1 put off");
    expect(await page.title()).not.toMatch(/^\(/);
    await open(page, `${server.origin}/`);
    await page.locator("h1", { hasText: "Runs" }).waitFor();
    await open(page, `${server.origin}/inbox`);
    await page.getByRole("button", { name: "Show 1 put off" }).click();
    await page.locator(".question").waitFor();
    // Something happens to it.
    await page.getByRole("button", { name: "Later" }).click();
    await expectText(page, "Nothing needs you.");
    await journey.json("tag", "asks@1", "seen");
    await page.locator(".question").waitFor();
    // The answer to one question is not chosen for the next one.
    const repository = journey.repository().split("/").at(-1) ?? "";
    await open(page, `${server.origin}/r/${repository}/asks`);
    await page.getByRole("radio").first().check();
    await ask("Continue after all?");
    await expectText(page, "Continue after all?");
    expect(await page.getByRole("radio", { checked: true }).count()).toBe(0);
    // A server that is read-only shows the question, and how to answer it in the terminal.
    await using reader = await startPage(journey.holdfast, {
      cwd: journey.repository(),
      args: ["--here", "--read-only"],
    });
    const look = await visit(browser, reader);
    for (const path of ["/inbox", `/r/${repository}/asks`]) {
      await open(look.page, `${reader.origin}${path}`);
      await expectText(look.page, "Continue after all?", "read-only", "approve asks");
      expect(await look.page.locator("main form, main .run-head .buttons button").count(), path).toBe(0);
    }
    await look.context.close();
    expect([...surprises, ...look.surprises]).toEqual([]);
    await context.close();
  });

  test("earlier output and earlier messages are there on request, each once", async () => {
    // More lines than a page shows at first, and a part and a half of messages.
    const lines = Array.from({ length: 2500 }, (_, number) => `line ${number}.`);
    const messages = Array.from({ length: 900 }, (_, number) => `message ${number}. ${"é".repeat(40)}`);
    const text = messages.map((content) => `${JSON.stringify({ role: "assistant", content })}\n`).join("");
    {
      await using holdfast = await openHoldfast({ cwd: journey.repository() });
      const { store } = holdfast;
      const birth = { workflow: "manual", work: { kind: "task", text: "Talk" } } as const;
      const lease = await store.takeLease({ run: "talks", birth, label: "test" });
      const transcript = { text, bytes: Buffer.byteLength(text), digest: sha256(text) };
      const conversation = { agent: "claude", session: null, transcript, lastMessage: null };
      const planes = { ...emptyPlanes(), conversation };
      await store.commit({ lease, entries: [], checkpoint: { trigger: "manual", planes } });
      await store.releaseLease(lease);
    }
    const folder = join(journey.repository(), ".git/holdfast/logs/talks");
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "1-agent.log"), `${lines.join("\n")}\n`);
    await using server = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
    const { page, context, surprises } = await visit(browser, server);
    const run = `${server.origin}/r/${journey.repository().split("/").at(-1)}/talks`;
    for (const [path, shown, button, all] of [
      ["", ".log-text", "Show earlier output", lines],
      ["/conversation", "#tab-panel", "Show earlier messages", messages],
    ] as const) {
      await open(page, `${run}${path}`);
      await expectText(page, all.at(-1) ?? "");
      const earlier = page.getByRole("button", { name: button });
      while ((await earlier.count()) > 0) {
        const before = (await page.innerText(shown)).length;
        await earlier.click();
        await until(async () => (await page.innerText(shown)).length > before);
      }
      expect((await page.innerText(shown)).match(/(?:line|message) \d+\./g), path).toEqual(
        all.map((one) => one.slice(0, one.indexOf(".") + 1)),
      );
    }
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("the palette finds a run that is too old for the list, and new runs displace none", async () => {
    const make = async (from: number, to: number): Promise<void> => {
      await using holdfast = await openHoldfast({ cwd: journey.repository() });
      const { store } = holdfast;
      for (let count = from; count < to; count += 1) {
        const work = { kind: "task", text: count === 0 ? "Long ago" : "Since then" } as const;
        const lease = await store.takeLease({
          run: `run-${count}`,
          birth: { workflow: "manual", work },
          label: "test",
        });
        await store.commit({ lease, entries: [], checkpoint: { trigger: "manual", planes: emptyPlanes() } });
        await store.releaseLease(lease);
      }
    };
    await make(0, 60);
    await using server = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
    const { page, context, surprises } = await visit(browser, server);
    await open(page, `${server.origin}/runs`);
    await page.getByRole("button", { name: "Show older runs" }).waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search or run a command" }).fill("long ago");
    await page.getByRole("option", { name: "Long ago" }).click();
    await page.locator("h1", { hasText: "Long ago" }).waitFor();
    await open(page, `${server.origin}/runs`);
    await page.getByRole("button", { name: "Show older runs" }).click();
    await page.waitForSelector('[data-row$="/run-0"]');
    // Rows far from what is shown are not in the document.
    await page.setViewportSize({ width: 1280, height: 4000 });
    // While the pointer or the focus is in the list, new rows wait.
    await page.mouse.move(0, 0);
    await page.locator("h1").focus();
    await make(60, 62);
    await page.waitForSelector('[data-row$="/run-61"]');
    await expect.poll(() => page.locator('[data-row*="/run-"]').count(), { timeout: 60_000 }).toBe(62);
    expect(surprises).toEqual([]);
    await context.close();
  });

  test("a run with hundreds of checkpoints has its handles, and a short story on a phone", async () => {
    {
      await using holdfast = await openHoldfast({ cwd: journey.repository() });
      const { store } = holdfast;
      const birth = { workflow: "ralph", work: { kind: "task", text: "Try again and again" } } as const;
      const lease = await store.takeLease({ run: "long", birth, label: "test" });
      const planes = emptyPlanes({ workflow: "ralph", stage: "iterate" });
      for (let sequence = 1; sequence <= 230; sequence += 1)
        await store.commit({ lease, entries: [], checkpoint: { trigger: "iteration", planes } });
      const decision = { name: "go", question: "Continue?", options: ["yes", "no"] };
      const body = { for: "you", reason: "asks", until: null, decision };
      await store.commit({ lease, entries: [{ kind: "run.waiting", body }] });
      await store.releaseLease(lease);
    }
    await journey.json("tag", "long@230", "newest");
    await using server = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
    const { page, context, surprises } = await visit(browser, server);
    const repository = journey.repository().split("/").at(-1) ?? "";
    await open(page, `${server.origin}/inbox`);
    // Runs of several repositories can have one id.
    await page.locator(".inbox-list a", { hasText: repository }).waitFor();
    await open(page, `${server.origin}/r/${repository}/long`);
    const handles = page.getByRole("slider");
    await handles.nth(1).waitFor();
    const said = async (): Promise<readonly (string | null)[]> =>
      await handles.evaluateAll((all) => all.map((one) => one.getAttribute("aria-valuetext")));
    expect(await said()).toEqual(["start of the run", "checkpoint 230, iterate"]);
    await handles.nth(1).press("ArrowLeft");
    await page.waitForURL(/@base\.\.229$/);
    expect(await said()).toEqual(["start of the run", "checkpoint 229, iterate"]);
    await handles.nth(0).press("ArrowRight");
    await page.waitForURL(/@31\.\.229$/);
    // Numbers of three digits do not cover each other.
    const overlapping = await page.locator(".checkpoint-lane .dot").evaluateAll((dots) => {
      const boxes = dots.map((dot) => dot.getBoundingClientRect());
      return boxes.filter((one, index) =>
        boxes.some(
          (other, at) => at > index && other.top === one.top && other.left < one.right && one.left < other.right,
        ),
      ).length;
    });
    expect(overlapping).toBe(0);
    // The question is above the undo of a tag.
    await page.getByRole("tab", { name: "Now" }).click();
    const top = async (selector: string): Promise<number> => (await page.locator(selector).boundingBox())?.y ?? -1;
    expect(await top(".question")).toBeLessThan(await top(".undo-strip"));
    await page.setViewportSize({ width: 390, height: 800 });
    expect(await page.locator(".story .sentence:visible").count()).toBeLessThanOrEqual(40);
    await page.getByRole("button", { name: /^Show \d+ earlier$/ }).click();
    expect(await page.locator(".story .sentence:visible").count()).toBeGreaterThan(200);
    // Large text on a phone fits, too.
    const wide: string[] = [];
    for (const path of ["/inbox", "/runs", `/r/${repository}/long`, `/r/${repository}/long/@2`]) {
      await open(page, `${server.origin}${path}`);
      await page.evaluate("document.documentElement.style.fontSize = '200%'");
      if (await page.evaluate<boolean>("document.documentElement.scrollWidth > innerWidth")) wide.push(path);
    }
    expect(wide).toEqual([]);
    // Without its server, no button seems to work.
    await open(page, `${server.origin}/r/${repository}/long`);
    const undo = page.locator(".undo-strip").getByRole("button", { name: "Undo" });
    expect(await undo.getAttribute("aria-disabled")).toBe("false");
    server.child.kill("SIGKILL");
    await page.waitForSelector(".live[data-state=old]", { state: "attached" });
    expect(await undo.getAttribute("aria-disabled")).toBe("true");
    expect(surprises).toEqual([]);
    await context.close();
  });
});
