#!/usr/bin/env node
// Draws docs/ui-*.png: the page over the demo's repository. Run it after a change of the page, on a built checkout with a Chromium.
//   node scripts/draw-ui.mjs
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const command = join(root, "packages/holdfast/bin/holdfast.cjs");
const executablePath = process.env.HOLDFAST_TEST_BROWSER ?? "/usr/bin/chromium-headless-shell";
const LARGEST = 120_000;
const AGENT = ["--agent", "command:true", "--no-review"];
const home = await mkdtemp(join(tmpdir(), "demo-"));
const env = { ...process.env, HOME: home, TMPDIR: home, XDG_STATE_HOME: join(home, "state"), HOLDFAST_TRUST: "1" };

/** What the command prints. A run that waits for the user has another status than 0. */
function holdfast(cwd, ...args) {
  return new Promise((resolve) => {
    execFile(process.execPath, [command, ...args], { cwd, env }, (_error, stdout) => resolve(stdout));
  });
}

/** Starts the page's server and returns the address that it prints. */
async function serve(child) {
  let text = "";
  for await (const part of child.stdout) {
    text += part;
    if (text.trimEnd().endsWith("}")) return JSON.parse(text).url;
  }
  throw new Error("holdfast ui ended");
}

let server;
let browser;
try {
  const { directory } = JSON.parse(await holdfast(home, "demo", "--seed", "7", "--keep", "--json"));
  const greeter = join(directory, "demo", "greeter");
  await holdfast(greeter, "tag", "issue-1@7", "good");
  await holdfast(greeter, "fork", "issue-1@3", "--as", "second-try");
  await holdfast(greeter, "resume", "second-try");
  await holdfast(greeter, "run", "--task", "Trim the name before greeting", "--gate", "npm run lint", ...AGENT);

  server = spawn(process.execPath, [command, "ui", "--no-open", "--json", "--port", "0"], { cwd: greeter, env });
  const url = await serve(server);
  const { origin } = new URL(url);
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  const page = await browser.newPage();
  await page.goto(url);
  const draw = async (name, path, { width = 1280, height, key }) => {
    await page.setViewportSize({ width, height });
    await page.goto(origin + path);
    await page.waitForSelector("main h1");
    await page.waitForSelector(".live[data-state=live]", { state: "attached" });
    await page.waitForSelector("main .skeleton", { state: "detached" });
    if (key !== undefined) {
      await page.keyboard.press(key);
      await page.waitForSelector("dialog .plan-lines");
    }
    const picture = await page.screenshot({ animations: "disabled" });
    if (picture.length > LARGEST) throw new Error(`ui-${name}.png has ${picture.length} bytes, more than ${LARGEST}`);
    await writeFile(join(root, `docs/ui-${name}.png`), picture);
  };
  await page.waitForSelector("main h1");
  await draw("needs-you", "/inbox", { height: 600 });
  await draw("run", "/r/greeter/issue-1", { height: 800 });
  await draw("restore", "/r/greeter/issue-1/@3", { height: 640, key: "r" });
  await draw("phone", "/r/greeter/issue-1", { width: 390, height: 760 });
} finally {
  await browser?.close();
  if (server !== undefined && server.exitCode === null) {
    server.kill("SIGINT");
    await once(server, "close");
  }
  await rm(home, { recursive: true, force: true });
}
