import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Boot, Changes, FilePatch, RunPage } from "@holdfast/dashboard/api";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type PageServer, type Sent, startPage } from "./page-server.ts";

/** Who may ask the server, and what no request can do. One server for the whole table. */

let journey: Journey;
let page: PageServer;
const SCRIPT = "<script>alert(1)</script>.txt";
/** Made up, and of the form that a forge gives. */
const TOKEN = `ghp_${"a1B2".repeat(9)}`;
const BIDI = "safe\u202Etxt.exe";

beforeAll(async () => {
  journey = await startJourney();
  await journey.begin();
  await journey.json("checkpoint", "--run", "work", "--name", "one");
  await journey.write(SCRIPT, `\u001b[31mred\u001b]8;;https://evil.example\u0007\n${"x".repeat(2_000_000)}\n`);
  await journey.write(BIDI, `two\nconst key = "${TOKEN}";\n`);
  await journey.write(`${TOKEN}.txt`, "a secret name\n");
  await journey.json("checkpoint", "work", "--name", SCRIPT);
  page = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
}, 120_000);
afterAll(async () => {
  await page?.[Symbol.asyncDispose]();
  await journey?.holdfast.remove();
});

const RUN = "/api/runs/repo-1/work";
/** Every kind of address: the page, a file, queries, and what does not exist. */
const ROUTES = [
  "/",
  "/r/repo-1/work/@1",
  "/assets/none.js",
  "/api/boot",
  "/api/runs",
  "/api/inbox",
  RUN,
  `${RUN}/timeline`,
  `${RUN}/entries`,
  `${RUN}/entries/1`,
  `${RUN}/checkpoints`,
  `${RUN}/checkpoints/1`,
  `${RUN}/checkpoints/1/transcript`,
  `${RUN}/effects`,
  `${RUN}/logs`,
  `${RUN}/report`,
  "/api/diff?a=repo-1/work@1&b=repo-1/work@2",
  "/api/compare?runs=repo-1/work,repo-1/work@1",
  "/api/nothing",
];
const isApi = (path: string): boolean => path.startsWith("/api/");
const bearer = (): Readonly<Record<string, string>> => ({ authorization: `Bearer ${page.token}` });
const status = async (sent: Sent): Promise<number> => (await page.send(sent)).status;

test.each(ROUTES)("%s is refused for a foreign host, a foreign site, and without a token", async (path) => {
  const headers = bearer();
  expect(await status({ path, headers: { ...headers, host: "evil.example" } })).toBe(421);
  expect(await status({ path, headers: { ...headers, host: `evil.example:${page.port}` } })).toBe(421);
  expect(await status({ path, headers: { ...headers, host: `127.0.0.1:${page.port + 1}` } })).toBe(421);
  expect(await status({ path, headers: { ...headers, origin: "https://evil.example" } })).toBe(403);
  expect(await status({ path, headers: { ...headers, origin: "null" } })).toBe(403);
  expect(await status({ path, headers: { ...headers, origin: `http://127.0.0.1:${page.port + 1}` } })).toBe(403);
  expect(await status({ path, headers: { ...headers, "sec-fetch-site": "cross-site" } })).toBe(403);
  expect(await status({ path, headers: { ...headers, "sec-fetch-site": "same-site" } })).toBe(403);
  if (!isApi(path)) return;
  expect(await status({ path })).toBe(401);
  expect(await status({ path, headers: { authorization: `Bearer ${page.token.slice(1)}x` } })).toBe(401);
  expect(await status({ path, headers: { authorization: `Basic ${page.token}` } })).toBe(401);
  expect(await status({ path: `${path}${path.includes("?") ? "&" : "?"}token=${page.token}` })).toBe(401);
  expect(await status({ path, headers: { cookie: `token=${page.token}` } })).toBe(401);
});

test.each(ROUTES)("%s has the headers of the policy, and no cookie", async (path) => {
  const answers: readonly Answer[] = [
    await page.send({ path, headers: bearer() }),
    await page.send({ path }),
    await page.send({ path, headers: { host: "evil.example" } }),
  ];
  for (const { headers } of answers) {
    expect(headers["content-security-policy"]).toContain("default-src 'none'; script-src 'self'");
    expect(headers["content-security-policy"]).toContain("require-trusted-types-for 'script'; trusted-types 'none'");
    expect(headers["content-security-policy"]).toContain("frame-ancestors 'none'");
    expect(headers).toMatchObject({
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-resource-policy": "same-origin",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    });
    expect(headers["set-cookie"]).toBeUndefined();
    expect(headers["access-control-allow-origin"]).toBeUndefined();
    if (isApi(path)) expect(headers["content-type"]).toContain("application/json");
  }
});

test("a code works once", async () => {
  const body = JSON.stringify({ code: page.code });
  const headers = { "content-type": "application/json" };
  expect(await status({ method: "POST", path: "/api/session", headers, body })).toBe(401);
  const guess = JSON.stringify({ code: "0".repeat(43) });
  expect(await status({ method: "POST", path: "/api/session", headers, body: guess })).toBe(401);
  expect(await status({ method: "POST", path: "/api/code", headers, body: JSON.stringify({ secret: "x" }) })).toBe(401);
});

describe("an action", () => {
  const action = JSON.stringify({ kind: "checkpoint", run: "repo-1/work" });
  const post = (headers: Readonly<Record<string, string>>, body = action): Promise<number> =>
    status({ method: "POST", path: "/api/plans", headers: { ...bearer(), ...headers }, body });
  test("needs POST with JSON, from this origin", async () => {
    expect(await status({ path: "/api/plans", headers: bearer() })).toBe(404);
    expect(await post({ "content-type": "text/plain" })).toBe(415);
    expect(await post({ "content-type": "application/x-www-form-urlencoded" })).toBe(415);
    expect(await post({})).toBe(415);
    expect(await post({ "content-type": "application/json", origin: "https://evil.example" })).toBe(403);
    expect(await post({ "content-type": "application/json", authorization: "" })).toBe(401);
    for (const method of ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
      expect(await status({ method, path: "/api/plans", headers: bearer() }), method).toBe(405);
    const { entries } = await journey.json("events", "work", "--limit", "all");
    expect(entries.filter(({ kind }: { kind: string }) => kind === "checkpoint")).toHaveLength(2);
  });
  test("has a limit for its size, and must be JSON", async () => {
    const json = { "content-type": "application/json" };
    expect(await post(json, JSON.stringify({ kind: "x".repeat(70_000) }))).toBe(413);
    expect(
      await post({ ...json, "content-length": "10", "transfer-encoding": "chunked" }, "{}").catch(() => 400),
    ).toBeGreaterThanOrEqual(400);
    expect(await post(json, "{")).toBe(400);
    expect(await post(json, "[]")).toBe(400);
  });
  test("cannot be applied without its plan", async () => {
    const body = JSON.stringify({ digest: "x", key: "some-key-1" });
    const headers = { ...bearer(), "content-type": "application/json" };
    expect(await status({ method: "POST", path: "/api/plans/none/apply", headers, body })).toBe(400);
  });
});

test.each([
  "/../../../../etc/passwd",
  "/%2e%2e/%2e%2e/etc/passwd",
  "/assets/..%2f..%2fmain.cjs",
  "/main.cjs",
  "/api/runs/../../etc/work",
  "/api/runs/repo-1/..%2f..%2fetc",
  "/api/runs/..%2frepo-1/work",
  "/api/runs/repo-1/WORK%00",
  `${RUN}/logs/..%2f1`,
  `${RUN}/logs/0`,
  `${RUN}/entries/-1`,
  `${RUN}/checkpoints/1e9`,
  `${RUN}/entries?limit=99999999999999999999`,
  "/api/diff?a=repo-1/work@1&b=/etc/passwd",
  "/api/diff?a=repo-1/work@1&b=repo-1/work@--output=x",
  "/api/diff/file?a=repo-1/work@1&b=repo-1/work@2&path=../../etc/passwd",
  "/api/diff/file?a=repo-1/work@1&b=repo-1/work@2&path=/etc/passwd",
  "/api/diff/file?a=repo-1/work@1&b=repo-1/work@2&path=%00",
  "/api/diff/file?a=repo-1/work@1&b=repo-1/work@2&path=:(top)src",
])("%s reaches no file", async (path) => {
  const answer = await page.send({ path, headers: bearer() });
  expect(answer.text).not.toMatch(/root:|require\(/);
  // An address that leaves /api is an address of the page, which the page itself reads.
  if (isApi(new URL(path, page.origin).pathname)) expect(answer.status).toBeGreaterThanOrEqual(400);
});

test("an address of more than 8 kB is refused", async () => {
  expect(await status({ path: `/api/runs?q=${"x".repeat(9000)}`, headers: bearer() })).toBe(414);
});

test("of 100 pages at most 32 can listen, and one that leaves makes room", async () => {
  const controllers = Array.from({ length: 100 }, () => new AbortController());
  const open = (signal: AbortSignal): Promise<Response> =>
    fetch(`${page.origin}/api/events?topics=runs`, { headers: bearer(), signal });
  // An answer that no variable holds is collected, and its stream ends with it.
  const answers: Response[] = [];
  for (const { signal } of controllers) answers.push(await open(signal));
  expect(answers.map((answer) => answer.status)).toEqual([
    ...Array.from({ length: 32 }, () => 200),
    ...Array.from({ length: 68 }, () => 429),
  ]);
  for (const controller of controllers) controller.abort();
  while ((await open(AbortSignal.timeout(10_000))).status !== 200) await sleep(100);
});

test("hostile names and contents are data, and long lines are cut", async () => {
  const at = "a=repo-1/work@1&b=repo-1/work@2";
  const { files } = await page.get<Changes>(`/api/diff?${at}`);
  expect(files?.map(({ path }) => path).toSorted()).toEqual(["***.txt", SCRIPT, BIDI].toSorted());
  const named = await page.get<FilePatch>(`/api/diff/file?${at}&path=${encodeURIComponent("***.txt")}`);
  expect(named.patch).toContain("+a secret name");
  expect(JSON.stringify(named)).not.toContain(TOKEN);
  const patch = await page.get<FilePatch>(`/api/diff/file?${at}&path=${encodeURIComponent(SCRIPT)}`);
  expect(patch.patch).toContain("\u001b[31mred");
  expect(Math.max(...patch.patch.split("\n").map((line) => line.length))).toBeLessThan(10_000);
  const other = await page.get<FilePatch>(`/api/diff/file?${at}&path=${encodeURIComponent(BIDI)}`);
  expect(other.patch).toContain("***");
  expect(other.patch).not.toContain(TOKEN);
  const compared = await page.get("/api/compare?runs=repo-1/work@1,repo-1/work@2");
  expect(JSON.stringify(compared)).toContain('"***.txt"');
  expect(JSON.stringify(compared)).not.toContain(TOKEN);
  const { row } = await page.get<RunPage>(RUN);
  expect(row).toMatchObject({ statusWord: "saved", pullRequest: null });
  // No text of a store is part of a file that a browser parses.
  expect((await page.send({ path: "/r/repo-1/work" })).text).not.toContain("alert(1)");
});

test("looking at changed files writes nothing to the repository", async () => {
  const common = join(journey.repository(), ".git");
  const files = (): readonly string[] =>
    readdirSync(common, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => `${join(parentPath, name)} ${statSync(join(parentPath, name)).ino}`)
      .toSorted();
  const before = files();
  await journey.write("src/a.txt", "not saved\n");
  const at = "a=repo-1/work@1&b=repo-1/work@worktree";
  const { files: changed } = await page.get<Changes>(`/api/diff?${at}`);
  expect(changed?.map(({ path }) => path)).toContain("src/a.txt");
  const { patch } = await page.get<FilePatch>(`/api/diff/file?${at}&path=src/a.txt`);
  expect(patch).toContain("+not saved");
  for (const path of ROUTES) await page.send({ path, headers: bearer() });
  expect(files()).toEqual(before);
  await journey.write("src/a.txt", "one\n");
});

test("only this machine can connect", async () => {
  const outside = Object.values(networkInterfaces())
    .flat()
    .find((one) => one !== undefined && !one.internal && one.family === "IPv4");
  if (outside === undefined) return;
  const refused = await new Promise<boolean>((resolve) => {
    const socket = connect(page.port, outside.address, () => resolve(false));
    socket.on("error", () => resolve(true));
  });
  expect(refused).toBe(true);
});

test("--host needs a token of the user", async () => {
  const stderr = await journey.fails(2, "ui", "--no-open", "--host", "127.0.0.2");
  expect(stderr).toContain("HOLDFAST_UI_TOKEN");
  for (const every of ["0.0.0.0", "::ffff:0.0.0.0"])
    expect(await journey.fails(2, "ui", "--no-open", "--host", every)).toContain("one address of this machine");
  const short = await journey.runIn(".", ["ui", "--no-open", "--host", "127.0.0.2"], {
    env: { HOLDFAST_UI_TOKEN: "short" },
  });
  const long = await journey.runIn(".", ["ui", "--no-open"], { env: { HOLDFAST_UI_TOKEN: "t".repeat(201) } });
  expect([short.status, long.status]).toEqual([2, 2]);
});

test("a second `ui` opens the first, and a killed server leaves nothing that is believed", async () => {
  const file = join(journey.holdfast.directory, ".local/state/holdfast/ui/server.json");
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const secret = (JSON.parse(readFileSync(file, "utf8")) as { secret: string }).secret;
  const second = await journey.json("ui", "--no-open", "--here");
  expect(second).toMatchObject({ kind: "running", origin: page.origin });
  // The same command as before, with the port in it.
  const repeated = await journey.json("ui", "--no-open", "--here", "--port", String(page.port));
  expect(repeated).toMatchObject({ kind: "running", origin: page.origin });
  expect(second.url).not.toContain(secret);
  const named = await journey.json("ui", "--no-open", "--here", "work@2");
  expect(named.url).toContain(`${page.origin}/r/repo-1/work/@2#k=`);
  const shown = await journey.run("status", "work");
  expect(shown.stderr).toContain(`Page: ${page.origin}/r/repo-1/work\n`);
  expect(shown.stderr).not.toContain(secret);
  expect(await journey.json("status", "work")).toMatchObject({ page: `${page.origin}/r/repo-1/work` });
  expect(await journey.json("compare", "work", "work@1")).toMatchObject({
    page: `${page.origin}/compare?r=repo-1%2Fwork&r=repo-1%2Fwork%401`,
  });
  // An error that waits for the user, too.
  await journey.json("fork", "work@1", "--as", "other");
  const refused = await journey.fails(4, "rm", "work");
  expect(refused).toContain(`Page: ${page.origin}/r/repo-1/work\n`);
  const { error } = JSON.parse(await journey.fails(4, "rm", "work", "--json"));
  expect(error).toMatchObject({ code: "NEEDS_DECISION", page: `${page.origin}/r/repo-1/work` });

  await using other = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
  // Of two servers, commands name the first.
  expect((await journey.run("status", "work")).stderr).toContain(page.origin);
  const gone = new Promise((resolve) => page.child.once("close", resolve));
  page.child.kill("SIGKILL");
  await gone;
  expect(existsSync(file)).toBe(true);
  expect((await journey.run("status", "work")).stderr).not.toContain("Page:");
  expect(await other.get<Boot>("/api/boot")).toMatchObject({ readOnly: false });
  page = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
  // The old token is worth nothing to the new server.
  expect((await page.send({ path: "/api/boot", headers: { authorization: `Bearer ${other.token}` } })).status).toBe(
    401,
  );
});
