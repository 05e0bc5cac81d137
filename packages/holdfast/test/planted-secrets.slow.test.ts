import { existsSync, readFileSync, rmSync } from "node:fs";
import { chmod, mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openHoldfast } from "../src/open.ts";
import { type BuiltCommand, type Finished, buildCommand } from "@holdfast/test-support/built-command";
import { gitIn } from "../src/cli/commands/demo-repository.ts";
import { openLocalForge } from "@holdfast/forges/local";

/**
 * Thirty secrets of different kinds come in through the issue, the agent's output, the files that it leaves, copied files, the environment and the commits. None of
 * them may be in the database, the logs, a prompt, the forge or on the terminal. The file that holds some of them restores byte for byte.
 *
 * They are put together here, so that no scanner takes this file for a leak.
 */
const RANDOM = "Zx81KqPw37LmNd52RtVb94HsJc60YfGu";
const join2 = (...parts: readonly string[]): string => parts.join("");

const ENVIRONMENT = {
  PLANTED_TOKEN: "an own value, with spaces (1)",
  PLANTED_PASSWORD: "correct-horse-battery-1",
  DATABASE_URL: "postgres://shop:db-password-7x@db.internal/shop",
};
const base64 = (text: string): string => Buffer.from(text).toString("base64");
const KEY_LINES = Array.from({ length: 5 }, (_, row) => `${"MIIEvQIBADANBgkqhkiG9w0".repeat(2)}${row}AbCdEfGh`);

const SECRETS = {
  issue: {
    github: join2("ghp", `_${RANDOM}abcd`),
    fineGrained: join2("github", `_pat_${RANDOM}_${RANDOM}`),
    openai: join2("sk-", `proj-${RANDOM}`),
    jwt: join2("eyJhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.", RANDOM),
    slack: join2("xoxb-", "123456789012-", RANDOM),
    assigned: `${RANDOM}assigned`,
    urlPassword: "url-password-4y",
  },
  output: {
    anthropic: join2("sk-", `ant-api03-${RANDOM}`),
    gitlab: join2("glpat-", "AbCdEfGhIjKlMnOpQr12"),
    awsId: join2("AKIA", "Q7R2T5W8Z1B4C6D9"),
    awsSecret: join2("wJalrXUtnFEMIpK7MDENG", "bPxRfiCYzzzPLE9KEYa"),
    npm: join2("npm", `_${RANDOM}abcd`),
    google: join2("AIza", `${RANDOM}abc`),
    stripe: join2("sk", `_live_${RANDOM}`),
    huggingFace: join2("hf", `_${RANDOM}ab`),
    bearer: `${RANDOM}bearer`,
    base64Token: base64(ENVIRONMENT.PLANTED_TOKEN),
    base64Basic: base64(`shop:${ENVIRONMENT.PLANTED_PASSWORD}`),
    urlEncoded: encodeURIComponent(ENVIRONMENT.PLANTED_TOKEN),
  },
  key: Object.fromEntries(KEY_LINES.map((line, row) => [`line${row}`, line])),
  finalize: {
    sendGrid: join2("SG.", `${RANDOM.slice(0, 22)}.${RANDOM}abcdefghijk`),
    digitalOcean: join2("dop_v1", `_${"0123456789abcdef".repeat(4)}`),
    shopify: join2("shpat", `_${"0123456789abcdef".repeat(2)}`),
    vault: join2("hvs.", RANDOM),
  },
  environment: { ...ENVIRONMENT, DATABASE_URL: "db-password-7x" },
  copied: {
    pass: "copied-pass-81",
    short: "hunt3r",
    json: "copied-json-82",
    yaml: "copied-yaml-83",
    bare: "copied-bare-84",
  },
} as const;

const FILE_SECRETS = {
  pypi: join2("pypi-", RANDOM, RANDOM),
  telegram: join2("123456789", `:AA${RANDOM}a`),
  databricks: join2("dapi", "fedcba9876543210".repeat(2)),
};

/** Files of workspace.copy, which the agent prints. */
const COPIED_FILES = {
  ".env": `DB_PASS=${SECRETS.copied.pass}\nMYSQL_PWD=${SECRETS.copied.short}\n`,
  "config/app.local.json": JSON.stringify({ db: { password: SECRETS.copied.json } }, null, 2),
  "config/app.local.yml": `db_password: ${SECRETS.copied.yaml}\n`,
  "config/master.key": `${SECRETS.copied.bare}\n`,
};

const planted: readonly (readonly [string, string])[] = [
  ...Object.entries(SECRETS).flatMap(([group, all]) =>
    Object.entries(all).map(([name, value]) => [`${group}.${name}`, value] as const),
  ),
  ...Object.entries(FILE_SECRETS).map(([name, value]) => [`file.${name}`, value] as const),
];

const { issue, output, finalize } = SECRETS;
const ISSUE = `Use ${issue.github} or ${issue.fineGrained}.
OPENAI_KEY: ${issue.openai}
The session is ${issue.jwt}, the bot is ${issue.slack}.
API_KEY=${issue.assigned}
git clone https://me:${issue.urlPassword}@git.internal/x.git
`;

const PRINTED = [
  `I found ${output.anthropic} and ${output.gitlab}`,
  `aws: ${output.awsId}`,
  output.awsSecret,
  `{"token":"${output.npm}","maps":"${output.google}"}`,
  `stripe ${output.stripe} hf ${output.huggingFace}`,
  `Authorization: Bearer ${output.bearer}`,
  `encoded ${output.base64Token} and Basic ${output.base64Basic} and ${output.urlEncoded}`,
  `plain ${ENVIRONMENT.PLANTED_TOKEN} and ${ENVIRONMENT.PLANTED_PASSWORD} and db-password-7x`,
  join2("-----BEGIN RSA PRIVATE ", "KEY-----"),
  ...KEY_LINES,
  join2("-----END RSA PRIVATE ", "KEY-----"),
  "and that is all.",
];

const FILE = `pypi: ${FILE_SECRETS.pypi}\ntelegram: ${FILE_SECRETS.telegram}\r\ndatabricks: ${FILE_SECRETS.databricks}\0binary`;

let holdfast: BuiltCommand;
beforeAll(async () => {
  holdfast = await buildCommand();
}, 300_000);
afterAll(() => holdfast.remove());

test("there are thirty of them, and no two are the same", () => {
  expect(planted.length).toBeGreaterThanOrEqual(30);
  expect(new Set(planted.map(([, value]) => value)).size).toBe(planted.length);
});

test("thirty planted secrets are only in the file, which restores byte for byte", { timeout: 600_000 }, async () => {
  const place = await makePlace("whole");
  const done = await place.run({ writesFile: true }, "run", "1");
  // The file would be published with the commit: the push waits for the user.
  expect(done.status, done.stdout + done.stderr).toBe(4);
  expect(done.stdout + done.stderr).toMatch(/secret\.txt:1 \(PyPI token/);
  expect(done.stdout + done.stderr).toContain("env.bak (same content as .env, a file of workspace.copy, commit ");
  expect(await place.git("ls-remote", "origin", "refs/heads/holdfast/*")).toBe("");
  const screens = [done, await place.run({}, "status", "issue-1"), await place.run({}, "--json", "events", "issue-1")];
  screens.push(
    await place.run({}, "output", "issue-1"),
    await place.run({}, "diff", "issue-1@1", "issue-1"),
    await place.run({}, "--json", "show", "issue-1"),
    await place.run({}, "checkpoint", "issue-1", "--name", `before ${SECRETS.copied.pass}`),
    await place.run({}, "run", "--task", `Use ${SECRETS.copied.pass}`, "--dry-run"),
  );
  for (const { stdout, stderr } of screens) place.expectClean("the terminal", stdout + stderr);
  expect(done.stdout + done.stderr).toMatch(/looks like a secret/);
  await place.expectCleanStore();
  place.expectClean("the prompts", readFileSync(place.prompts, "utf8"));
  expect(readFileSync(place.prompts, "utf8")).toMatch(/\*\*\*/);

  // Files keep their bytes.
  const worktree = (await place.git("worktree", "list", "--porcelain")).match(/^worktree (.*issue-1)$/m)?.[1] ?? "";
  const path = join(worktree, "secret.txt");
  expect(readFileSync(path)).toEqual(Buffer.from(FILE));
  rmSync(path);
  const restored = await place.run({}, "restore", "issue-1", "--yes");
  expect(restored.status, restored.stdout + restored.stderr).toBe(0);
  expect(readFileSync(path)).toEqual(Buffer.from(FILE));
});

test("published text has none of them, mentions no user and closes no other issue", { timeout: 600_000 }, async () => {
  const place = await makePlace("published");
  const done = await place.run({ writesFile: false }, "run", "1");
  expect(done.status, done.stdout + done.stderr).toBe(0);
  const forge = openLocalForge({ repository: place.remote });
  const request = await forge.findPullRequest("holdfast/issue-1");
  const published = `${request?.title}\n${request?.body}`;
  place.expectClean("the pull request", published);
  expect(published).toContain("***");
  expect(published).toMatch(/Closes #1\b/);
  expect(published).not.toMatch(/Closes #77|@everyone/);
  expect(published.replaceAll("\u200B", "")).toMatch(/Closes #77[^]*@everyone/);
  const commits = await place.git("log", "--format=%B", "origin/main..origin/holdfast/issue-1");
  place.expectClean("the commit messages", commits);
  expect(commits).not.toMatch(/Fixes #78/);
  const journal = await place.run({}, "--json", "events", "issue-1");
  expect(journal.stdout).toMatch(/finalize.*looks like a secret/);
  await place.expectCleanStore();
});

test("an answer of the user lets a false alarm pass", { timeout: 600_000 }, async () => {
  const place = await makePlace("allowed");
  expect(await place.run({ writesFile: true }, "run", "1")).toMatchObject({ status: 4 });
  const answered = await place.run({}, "approve", "issue-1", "push");
  expect(answered.status, answered.stdout + answered.stderr).toBe(0);
  const done = await place.run({ writesFile: true }, "resume", "issue-1");
  expect(done.status, done.stdout + done.stderr).toBe(0);
  expect(await place.git("ls-remote", "origin", "refs/heads/holdfast/issue-1")).not.toBe("");
});

async function makePlace(name: string) {
  const directory = join(holdfast.directory, name);
  const [clone, remote, agent, prompts] = ["shop", "shop.git", "agent.sh", "prompts"].map((file) =>
    join(directory, file),
  ) as [string, string, string, string];
  await mkdir(clone, { recursive: true });
  const git = gitIn(clone, { PATH: process.env["PATH"] ?? "", HOME: holdfast.directory, GIT_CONFIG_NOSYSTEM: "1" });
  await git("init", "-q", "--bare", "-b", "main", remote);
  await git("init", "-q", "-b", "main");
  await writeFile(join(clone, "README.md"), "# Shop\n");
  await writeFile(join(clone, ".gitignore"), ".env\n/config/\n");
  const copy = Object.keys(COPIED_FILES);
  await writeFile(join(clone, "holdfast.config.yaml"), JSON.stringify({ workspace: { copy } }));
  await git("config", "user.name", "A");
  await git("config", "user.email", "a@example.com");
  await git("add", ".");
  await git("commit", "-qm", "first");
  await git("remote", "add", "origin", remote);
  await git("push", "-q", "-u", "origin", "main");
  await mkdir(join(clone, "config"));
  for (const [path, text] of Object.entries(COPIED_FILES)) await writeFile(join(clone, path), text);
  await openLocalForge({ repository: remote }).createIssue({
    title: `Answer ${issue.github}`,
    body: ISSUE,
    labels: [],
    key: "t",
  });
  const run = async (
    { writesFile = false }: { readonly writesFile?: boolean },
    ...args: readonly string[]
  ): Promise<Finished> => {
    await writeFile(agent, scriptOf({ prompts, writesFile }));
    await chmod(agent, 0o755);
    const flags = args[0] === "run" ? ["--agent", `command:${agent}`, "--yolo"] : [];
    return await holdfast.run([...args, ...flags], { cwd: clone, env: ENVIRONMENT });
  };
  const expectClean = (where: string, text: string): void => {
    for (const [kind, value] of planted) expect(text.includes(value), `${kind} is in ${where}`).toBe(false);
  };
  return {
    git,
    remote,
    prompts,
    run,
    expectClean,
    /** The files as they lie there, and all that can be read through them. */
    async expectCleanStore() {
      const folder = join(clone, ".git/holdfast");
      for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
        if (entry.isFile())
          expectClean(entry.name, readFileSync(join(entry.parentPath, entry.name)).toString("latin1"));
      expect(existsSync(join(folder, "logs"))).toBe(true);
      await using opened = await openHoldfast({ cwd: clone });
      const { store } = await opened.work.adapters();
      let entries = 0;
      for await (const entry of store.readJournal({ run: "issue-1" })) {
        entries += 1;
        expectClean(`entry ${entry.kind}`, textsOf(entry));
      }
      expect(entries).toBeGreaterThan(10);
      for (const { sequence } of await store.listCheckpoints({ run: "issue-1" })) {
        const { planes } = await store.getCheckpoint({ run: "issue-1", sequence });
        expectClean(`checkpoint ${sequence}`, textsOf(planes));
      }
      const verified = await holdfast.run(["verify"], { cwd: clone });
      expect(verified.status, verified.stdout + verified.stderr).toBe(0);
    },
  };
}

/** As text without the escapes of JSON: a secret with a quote in it is one too. */
function textsOf(value: unknown): string {
  const all: string[] = [];
  JSON.stringify(value, (_key, item: unknown) => {
    if (typeof item === "string") all.push(item);
    return item;
  });
  return `${all.join("\n")}\n${JSON.stringify(value)}`;
}

function scriptOf({ prompts, writesFile }: { readonly prompts: string; readonly writesFile: boolean }): string {
  const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
  const body = `Needs ${finalize.sendGrid}.\nCloses #77 and cc @everyone.\n${finalize.digitalOcean}`;
  return [
    "#!/bin/sh",
    `cat >> ${quote(prompts)}`,
    ...PRINTED.map((line) => `printf '%s\\n' ${quote(line)}`),
    ...PRINTED.slice(0, 2).map((line) => `printf '%s\\n' ${quote(line)} >&2`),
    `cat ${Object.keys(COPIED_FILES).join(" ")}`,
    'if [ "$HOLDFAST_ROLE" = impl ]; then',
    "  echo 42 > answer.txt",
    ...(writesFile
      ? [
          `  cp .env env.bak; printf ${quote(FILE.replaceAll("%", "%%").replaceAll("\r", "\\r").replaceAll("\n", "\\n").replaceAll("\0", "\\000"))} > secret.txt`,
        ]
      : []),
    `  printf '%s\\n' ${quote(`Fixes #78 with ${finalize.shopify}`)} > "$HOLDFAST_COMMIT_REPORT"`,
    `  { printf '%s\\n' ${quote(`[feat][#1] Answer ${finalize.vault}`)}; echo; printf '%s\\n' ${quote(body)}; echo "$HOLDFAST_COMPLETION"; } > "$HOLDFAST_FINALIZE_FILE"`,
    "else",
    `  echo '{"faithful": 95, "style": 95, "docs": 95, "cornerCases": 95}'`,
    "fi",
    "",
  ].join("\n");
}
