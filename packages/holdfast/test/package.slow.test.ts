import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { builtinModules } from "node:module";
import { tmpdir } from "node:os";
import { basename, delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dependencyFolders } from "./installed-package.ts";
import { startPage } from "./ui/page-server.ts";

/** What users get: the tarball, packed from a copy of the repository and installed into an empty project, without a network. */

const root = join(import.meta.dirname, "../../..");
const folder = mkdtempSync(join(tmpdir(), "holdfast-package-"));
const project = join(folder, "project");
const installed = join(project, "node_modules/holdfast");

let shipped: readonly string[];

beforeAll(() => {
  const copy = join(folder, "repository");
  copyRepository(copy);
  const packed: unknown = JSON.parse(
    npm(join(copy, "packages/holdfast"), "pack", "--json", "--silent", "--pack-destination", folder),
  );
  const [tarball] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  if (tarball === undefined) throw new Error(`npm pack wrote no tarball: ${JSON.stringify(packed)}`);
  mkdirSync(project);
  writeFileSync(join(project, "package.json"), JSON.stringify({ name: "empty", private: true, type: "module" }));
  // Its dependencies come from here instead of the registry. npm checks that their versions are the ones that it asks for.
  npm(
    project,
    "install",
    "--offline",
    "--no-audit",
    "--no-fund",
    "--silent",
    join(folder, tarball),
    ...dependencyFolders(),
  );
  shipped = readdirSync(installed, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(installed.length + 1))
    .toSorted();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("README, license, changelog and every page of the documentation are in it", () => {
  const pages = readdirSync(join(root, "docs")).map((name) => `docs/${name}`);
  expect(shipped).toEqual(expect.arrayContaining(["README.md", "LICENSE", "CHANGELOG.md", ...pages]));
  expect(pages.length).toBeGreaterThan(10);
});

test("no link in its documents leads to a file that is not in it", () => {
  const dead = shipped
    .filter((path) => path.endsWith(".md"))
    .flatMap((path) =>
      [...readFileSync(join(installed, path), "utf8").matchAll(/\]\(([^)#\s]+)(?:#[^)\s]*)?\)/g)]
        .map((match) => match[1] ?? "")
        .filter((to) => !/^[a-z]+:/.test(to) && !existsSync(join(installed, dirname(path), to)))
        .map((to) => `${path} links to ${to}`),
    );
  expect(dead).toEqual([]);
});

test("its code is a bundle and a declaration file per entry point, what they share, and the programs", () => {
  const top = [...new Set(shipped.map((path) => path.split("/")[0] ?? ""))];
  expect(top.toSorted()).toEqual([
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "bin",
    "dist",
    "docs",
    "package.json",
    "schemas",
  ]);
  const isChunk = (path: string) => /^dist\/(?:[\w-]+-[A-Z0-9]{8}\.js|cli\/[\w-]+-[0-9a-f]{8}\.cjs)$/.test(path);
  // The page of `holdfast ui`, whose files have their digests in their names.
  const isPage = (path: string) => /^dist\/cli\/ui\/assets\/[\w-]+\.(?:js|css|svg)$/.test(path);
  expect(shipped.filter(isPage).length).toBeGreaterThan(2);
  const code = shipped.filter((path) => path.startsWith("dist/") && !isChunk(path) && !isPage(path));
  const programs = ["node-parser", "script-runner", "watchdog-process"];
  const prompts = globSync("*/prompts/*.md", { cwd: join(import.meta.dirname, "../../workflows/src") });
  expect(prompts.length).toBeGreaterThan(3);
  expect(code).toEqual(
    [
      ...["context", "index", "testing"].flatMap((name) => [`dist/${name}.js`, `dist/${name}.d.ts`]),
      "dist/shared.d.ts",
      ...programs.map((name) => `dist/${name}.js`),
      ...["main", ...programs].map((name) => `dist/cli/${name}.cjs`),
      "dist/cli/help.txt",
      "dist/cli/report.cjs",
      "dist/cli/ui/index.html",
      ...["dist", "dist/cli"].flatMap((folder) => prompts.map((path) => `${folder}/${path}`)),
    ].toSorted(),
  );
});

test("every module imports only Node, declared dependencies and files that are in it", () => {
  const { dependencies, peerDependencies } = manifest();
  const declared = [...Object.keys(dependencies), ...Object.keys(peerDependencies)];
  const wrong = shipped
    .filter((path) => /\.(js|cjs|d\.ts)$/.test(path))
    .flatMap((path) =>
      importsOf(path)
        .filter((target) =>
          target.startsWith(".")
            ? !existsSync(
                join(installed, dirname(path), path.endsWith(".d.ts") ? target.replace(/\.js$/, ".d.ts") : target),
              )
            : !target.startsWith("node:") &&
              !builtinModules.includes(target) &&
              !declared.some((name) => target === name || target.startsWith(`${name}/`)),
        )
        .map((target) => `${path} imports ${target}`),
    );
  expect(wrong).toEqual([]);
});

test("every program that a module starts by its path is in it, for the library and for the command line", () => {
  const programs = shipped
    .filter((path) => path.endsWith(".js"))
    .flatMap((path) =>
      [...readFileSync(join(installed, path), "utf8").matchAll(/`(?:\.\/)?([\w-]+)\$\{extname/g)].map((match) =>
        join(dirname(path), match[1] ?? ""),
      ),
    );
  expect(programs.length).toBeGreaterThanOrEqual(3);
  const wanted = programs.flatMap((path) => [`${path}.js`, `dist/cli/${basename(path)}.cjs`]);
  expect(wanted.filter((path) => !shipped.includes(path))).toEqual([]);
});

test("its package.json describes it, and names no host that does not exist", () => {
  const { name, version, description, keywords, license, author, bin, exports, engines } = manifest();
  expect({ name, license, bin }).toEqual({
    name: "holdfast",
    license: "Apache-2.0",
    bin: { holdfast: "bin/holdfast.cjs" },
  });
  expect(version).toMatch(/^\d+\.\d+\.\d+/);
  expect(description.length).toBeGreaterThan(40);
  expect(keywords.length).toBeGreaterThan(5);
  expect(author).not.toBe("");
  expect(engines.node).toContain("24");
  const targets = Object.values(exports).flatMap((target) =>
    typeof target === "string" ? [target] : Object.values(target),
  );
  expect(targets.filter((target) => !existsSync(join(installed, target)))).toEqual([]);
});

test("the command starts, and every entry of the library can be imported", () => {
  expect(npm(project, "exec", "--offline", "--no", "--silent", "--", "holdfast", "--version").trim()).toBe(
    manifest().version,
  );
  const code = `const found = {};
    for (const name of ["holdfast", "holdfast/context", "holdfast/testing"]) found[name] = Object.keys(await import(name));
    console.log(JSON.stringify(found));`;
  const printed = execFileSync(process.execPath, ["--input-type=module", "-e", code], {
    cwd: project,
    encoding: "utf8",
  });
  expect(JSON.parse(printed)).toEqual({
    holdfast: expect.arrayContaining(["open", "defineWorkflow", "HoldfastError"]),
    "holdfast/context": expect.arrayContaining(["CheckpointStore"]),
    "holdfast/testing": expect.arrayContaining(["storeContract", "agentContract", "forgeContract"]),
  });
});

test("`holdfast ui` serves its page, and every file that the page loads", async () => {
  const env = { PATH: process.env["PATH"], HOME: folder };
  const start = (args: readonly string[]) =>
    spawn(process.execPath, [join(installed, "bin/holdfast.cjs"), ...args], { cwd: project, env, stdio: "pipe" });
  await using page = await startPage({ start }, { cwd: project });
  expect(await page.get("/api/boot")).toMatchObject({ version: manifest().version, repositories: [] });
  const { text } = await page.send({ path: "/" });
  const loaded = [...text.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path = ""]) => path);
  const types = await Promise.all(loaded.map(async (path) => (await page.send({ path })).headers["content-type"]));
  expect(types).toEqual(expect.arrayContaining(["text/javascript; charset=utf-8", "text/css; charset=utf-8"]));
  expect(types).not.toContain("text/html; charset=utf-8");
});

test("a newcomer follows the tutorial: killed once, resumed, merged, removed, and nothing is left", () => {
  const page = readFileSync(join(root, "docs/tutorial.md"), "utf8");
  const steps = page
    .split(/^## (?=\d\. )/m)
    .map((step) => [...step.matchAll(/^```sh\n([^]*?)^```/gm)].map(([, code]) => code));
  const [, install, make, ...work] = steps.slice(0, -1);
  const [place, home] = [join(folder, "newcomer"), join(folder, "newcomer-home")];
  for (const path of [place, home]) mkdirSync(path);
  writeFileSync(join(home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n");
  writeFileSync(join(home, ".npmrc"), "offline=true\naudit=false\nfund=false\n");
  const script = [make, ...work].flat().join("");
  const { status, stdout, stderr } = spawnSync("bash", ["-euo", "pipefail", "-c", script], {
    cwd: place,
    encoding: "utf8",
    timeout: 240_000,
    env: {
      HOME: home,
      PATH: [join(project, "node_modules/.bin"), dirname(process.execPath), process.env["PATH"]].join(delimiter),
    },
  });
  expect(status, stdout + stderr).toBe(0);
  expect(work.flat().join("").trim().split("\n").length + (install ?? []).length).toBeLessThanOrEqual(12);
  const greeter = join(place, "greeter");
  const git = (...args: readonly string[]) => execFileSync("git", args, { cwd: greeter, encoding: "utf8" }).trim();
  expect(git("show", "HEAD:greet.js")).toContain('(name = "World")');
  expect(git("status", "--short")).toBe("");
  expect(git("worktree", "list").split("\n")).toHaveLength(1);
  expect(git("for-each-ref", "--format=%(refname)")).toBe("refs/heads/main");
  expect(readdirSync(place).toSorted()).toEqual(["agent.sh", "agent.sh.started", "greeter"]);
});

test("an error of one entry point is an error of the others", () => {
  const code = `import { HoldfastError } from "holdfast";
    import { CheckpointError, CheckpointStore } from "holdfast/context";
    const error = await CheckpointStore.open("", { store: "./never" }).catch((caught) => caught);
    console.log(JSON.stringify([CheckpointError === HoldfastError, error instanceof HoldfastError]));`;
  const printed = execFileSync(process.execPath, ["--input-type=module", "-e", code], {
    cwd: project,
    encoding: "utf8",
  });
  expect(JSON.parse(printed)).toEqual([true, true]);
});

/** A TypeScript or JavaScript example of the library in the README or a page of the documentation. */
interface Example {
  readonly name: string;
  readonly code: string;
}

const examples: readonly Example[] = ["README.md", ...readdirSync(join(root, "docs")).map((name) => `docs/${name}`)]
  .filter((page) => page.endsWith(".md"))
  .flatMap((page) =>
    [
      ...readFileSync(join(root, page), "utf8").matchAll(/^```(?:[cm]?[jt]sx?|typescript|javascript)\n([^]*?)^```/gm),
    ].map((match, index) => ({
      name: `${page.replace(".md", "").replace("/", "-")}-${index + 1}`,
      code: match[1] ?? "",
    })),
  )
  // The OpenTelemetry file of docs/operations.md uses packages that users install for it: telemetry.slow.test.ts runs it.
  .filter(({ code }) => code.includes('from "holdfast'));

describe("every example of README and docs, in a project of its own", () => {
  test("there are examples of each entry point that has a page", () => {
    const imported = new Set(
      examples.flatMap(({ code }) => [...code.matchAll(/from "(holdfast[^"]*)"/g)].map((m) => m[1])),
    );
    expect([...imported].toSorted()).toEqual(["holdfast", "holdfast/context"]);
    expect(examples.length).toBeGreaterThanOrEqual(9);
  });

  test.each(examples)("$name runs, and again in the same directory", ({ name, code }) => {
    const directory = join(project, "runs", name);
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, "example.mts"), code);
    // Without a store of its own an example needs a repository.
    if (code.includes("open()")) makeRepository(directory);
    for (const time of ["first", "second"]) {
      const { status, stderr } = spawnSync(process.execPath, ["example.mts"], { cwd: directory, encoding: "utf8" });
      expect({ time, status, stderr }).toEqual({ time, status: 0, stderr: "" });
    }
  });
});

function makeRepository(directory: string): void {
  const author = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
  execFileSync("git", ["init", "-q"], { cwd: directory });
  execFileSync("git", [...author, "commit", "-q", "--allow-empty", "-m", "first"], { cwd: directory });
}

const STRICT = { target: "es2024", strict: true, skipLibCheck: false, noEmit: true };
const STRICTEST = {
  ...STRICT,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noPropertyAccessFromIndexSignature: true,
};
const RESOLUTIONS = {
  nodenext: { module: "nodenext" },
  bundler: { module: "esnext", moduleResolution: "bundler" },
};

/** What the declarations must accept, refuse and infer. */
const TYPE_CASES = [
  { name: "context-types.ts", source: "../../src/context/index.ts", entry: "holdfast/context" },
  { name: "library-types.ts", source: "../../src/index.ts", entry: "holdfast" },
];

describe.each([
  { resolution: "nodenext", node: true },
  { resolution: "nodenext", node: false },
  { resolution: "bundler", node: true },
  { resolution: "bundler", node: false },
] as const)("in a TypeScript project with $resolution resolution, @types/node: $node", ({ resolution, node }) => {
  const types = { ...RESOLUTIONS[resolution], types: node ? ["node"] : [] };

  test.each([
    { how: "strict", options: STRICT },
    { how: "as strict as the compiler can be", options: STRICTEST },
  ])("every example, every declaration and every case of types passes, $how", ({ options }) => {
    const directory = typed(node);
    for (const { name, source, entry } of TYPE_CASES) {
      const code = readFileSync(join(import.meta.dirname, "types", name), "utf8");
      expect(code.match(/@ts-expect-error/g)?.length).toBeGreaterThan(15);
      writeFileSync(join(directory, name), code.replaceAll(source, entry));
    }
    // Examples that import a module of Node need its types.
    for (const { name, code } of examples)
      if (node || !code.includes('"node:')) writeFileSync(join(directory, `${name}.ts`), code);
    expect(compile(directory, { ...options, ...types })).toBe("");
  });
});

test("the declarations need neither the types of Node nor those of a browser", () => {
  const directory = typed(false);
  const names = ["holdfast", "holdfast/context", "holdfast/testing"];
  const code = names.map((name, index) => `export * as entry${index} from "${name}";\n`).join("");
  writeFileSync(join(directory, "all.ts"), code);
  expect(compile(directory, { ...STRICT, lib: ["es2022"], types: [], module: "nodenext" })).toBe("");
  writeFileSync(join(directory, "wrong.ts"), 'import { open } from "holdfast";\nexport const wrong: number = open;\n');
  expect(compile(directory, { ...STRICT, lib: ["es2022"], types: [], module: "nodenext" })).toContain("TS2322");
});

let projects = 0;

/** A fresh directory for sources, with the package installed above it, and with @types/node or without. */
function typed(node: boolean): string {
  projects += 1;
  const directory = join(project, `typed-${projects}`);
  mkdirSync(join(directory, "node_modules"), { recursive: true });
  if (node) symlinkSync(join(root, "node_modules/@types"), join(directory, "node_modules/@types"));
  writeFileSync(join(directory, "package.json"), JSON.stringify({ private: true, type: "module" }));
  return directory;
}

/** What the compiler prints: nothing when all is well. */
function compile(directory: string, compilerOptions: object): string {
  writeFileSync(join(directory, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const { status, stdout, stderr } = spawnSync(process.execPath, [tsc, "-p", directory], { encoding: "utf8" });
  return status === 0 ? stdout + stderr : `status ${status}\n${stdout}${stderr}`;
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly keywords: readonly string[];
  readonly license: string;
  readonly author: string;
  readonly bin: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
  readonly engines: { readonly node: string };
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

function manifest(): Manifest {
  return JSON.parse(readFileSync(join(installed, "package.json"), "utf8")) as Manifest;
}

function copyRepository(to: string): void {
  const skipped = new Set(["node_modules", "dist", "coverage"]);
  for (const name of ["README.md", "LICENSE", "CHANGELOG.md", "docs", "scripts", "tsconfig.json", "packages"])
    cpSync(join(root, name), join(to, name), { recursive: true, filter: (path) => !skipped.has(basename(path)) });
  // Without workspaces, so that npm takes the copy for a package on its own.
  writeFileSync(join(to, "package.json"), JSON.stringify({ private: true, type: "module" }));
  // The dependencies of the repository, and the workspaces of the copy.
  const modules = join(to, "node_modules");
  mkdirSync(join(modules, "@holdfast"), { recursive: true });
  for (const name of readdirSync(join(root, "node_modules")))
    if (name !== "@holdfast") symlinkSync(join(root, "node_modules", name), join(modules, name));
  for (const name of readdirSync(join(to, "packages")))
    symlinkSync(join(to, "packages", name), join(modules, "@holdfast", name));
}

/** The npm of this machine, with its own cache and without the settings that the outer npm passes down. */
function npm(cwd: string, ...args: readonly string[]): string {
  const kept = Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith("npm_"));
  const env = {
    ...Object.fromEntries(kept),
    PATH: `${dirname(process.execPath)}${delimiter}${process.env["PATH"] ?? ""}`,
    npm_config_cache: join(folder, "cache"),
  };
  return execFileSync("npm", args, { cwd, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

/** Modules that a file loads, by a statement or at run time. The bundles are CommonJS, and their strings hold code of examples. */
function importsOf(path: string): readonly string[] {
  const code = readFileSync(join(installed, path), "utf8");
  const statement = path.endsWith(".cjs") ? [] : [/^(?:import|export)\s+(?:[\w$*{},\s]+?\s+from\s+)?"([^"\n]+)"/gm];
  return [...statement, /\b(?:import|require)\("([^"\n]+)"\)/g]
    .flatMap((pattern) => [...code.matchAll(pattern)])
    .flatMap((match) => (match[1] === undefined ? [] : [match[1]]));
}
