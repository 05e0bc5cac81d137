/** The repository, issue and scripted agent of the demo. */
import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { HoldfastError } from "@holdfast/platform/error";
import { MIN_GIT_VERSION } from "@holdfast/platform/git-command";

export interface DemoRepository {
  readonly directory: string;
  readonly clone: string;
  readonly remote: string;
  /** `provider:model` of the scripted agent. */
  readonly agent: string;
  readonly env: Readonly<Record<string, string>>;
}

/** Creates a bare remote and a clone with one commit, all inside `directory`. Ignores the user's git settings. */
export async function makeDemoRepository(directory: string): Promise<DemoRepository> {
  const [clone, remote, script] = ["greeter", "remote.git", "agent.json"].map((name) => join(directory, name));
  if (clone === undefined || remote === undefined || script === undefined) throw new TypeError("a path is missing");
  const env = plainEnvironment(directory);
  const git = gitIn(clone, env);
  await mkdir(clone);
  await writeFile(script, demoScript());
  await git("init", "-q", "--bare", "-b", "main", remote);
  await git("init", "-q", "-b", "main");
  for (const [path, text] of Object.entries(DEMO_FILES)) await writeFile(join(clone, path), text);
  await git("config", "user.name", "Demo");
  await git("config", "user.email", "demo@localhost");
  await git("add", ".");
  await git("commit", "-q", "-m", "A greeter");
  await git("remote", "add", "origin", remote);
  await git("push", "-q", "-u", "origin", "main");
  return { directory, clone, remote, agent: `scripted:${script}`, env };
}

/** Returns the output of a git command in the demo's isolated environment. */
export function gitIn(
  cwd: string,
  env: Readonly<Record<string, string>>,
): (...args: readonly string[]) => Promise<string> {
  return async (...args) => {
    try {
      return (await promisify(execFile)("git", [...args], { cwd, env })).stdout.trim();
    } catch (cause) {
      throw new HoldfastError({
        code: "GIT_FAILED",
        message: `git ${args[0] ?? ""} failed in the demo's repository`,
        hint: `The demo needs git ${MIN_GIT_VERSION} or newer; run \`holdfast doctor\`.`,
        cause,
      });
    }
  };
}

/** Fixed values, so that the demo's trees and commits are the same on every machine. */
function plainEnvironment(directory: string): Readonly<Record<string, string>> {
  const date = "2026-01-01T00:00:00Z";
  return {
    PATH: process.env["PATH"] ?? "",
    HOME: directory,
    LANG: "C.UTF-8",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: join(directory, "no-git-config"),
    GIT_AUTHOR_DATE: date,
    GIT_COMMITTER_DATE: date,
  };
}

/** The demo's issue, its repository, and its agent's work: a first attempt that the review rejects, and a second one. */
export const DEMO_ISSUE = {
  title: "Greet people by name",
  body: "`greet(name)` should say `Hello, NAME!`. Without a name it says `Hello!`, as it does now.\n",
};

const DEMO_FILES: Readonly<Record<string, string>> = {
  "greet.js": 'export function greet() {\n  return "Hello!";\n}\n',
  "package.json": '{ "name": "greeter", "type": "module" }\n',
  "README.md": "# Greeter\n\nSays hello.\n",
};

/** The scripted agent's script, as JSON (which is also valid YAML). */
function demoScript(): string {
  const usage = { input: 1800, output: 450, microUsd: 9200 };
  return JSON.stringify(
    {
      answers: [
        {
          when: { role: "impl", iteration: 1 },
          edits: [
            { do: "write", path: "greet.js", text: FIRST },
            { do: "wait", ms: 20 },
            { do: "write", path: "notes.txt", text: "what about blank names?\n" },
            { do: "delete", path: "notes.txt" },
          ],
          commitReport: "Greet people by name\n",
          finalize: { title: "[feat][#1] Greet people by name", body: "`greet` takes a name." },
          reply: "greet() takes a name now.",
          usage,
        },
        {
          when: { role: "review", iteration: 1 },
          reply: JSON.stringify({
            scores: { faithful: 92, style: 90, docs: 55, cornerCases: 60 },
            overall_score: 74,
            findings: ["greet(' ') says 'Hello,  !'", "the README does not mention names"],
            suggestions: ["Treat a blank name like none", "Show greet(name) in the README"],
          }),
          usage,
        },
        {
          when: { role: "impl", iteration: 2 },
          edits: [
            { do: "write", path: "greet.js", text: SECOND },
            { do: "wait", ms: 20 },
            { do: "append", path: "README.md", text: '\n```js\ngreet("Ada"); // Hello, Ada!\n```\n' },
            { do: "write", path: "greet.test.js", text: TEST },
          ],
          commitReport: "Greet blank names like none; document names\n",
          finalize: {
            title: "[feat][#1] Greet people by name",
            body: "`greet(name)` greets by name; a blank name is no name.",
          },
          reply: "Blank names are handled, the README shows an example, and there is a test.",
          usage,
        },
        {
          when: { role: "review" },
          reply: JSON.stringify({
            scores: { faithful: 97, style: 94, docs: 92, cornerCases: 93 },
            overall_score: 94,
            findings: [],
            suggestions: [],
          }),
          usage,
        },
      ],
    },
    null,
    2,
  );
}

const FIRST = 'export function greet(name) {\n  return name ? `Hello, ${name}!` : "Hello!";\n}\n';
const SECOND =
  'export function greet(name = "") {\n  const known = name.trim();\n  return known === "" ? "Hello!" : `Hello, ${known}!`;\n}\n';
const TEST =
  'import assert from "node:assert/strict";\nimport { greet } from "./greet.js";\n\nassert.equal(greet("Ada"), "Hello, Ada!");\nassert.equal(greet("  "), "Hello!");\nassert.equal(greet(), "Hello!");\n';
