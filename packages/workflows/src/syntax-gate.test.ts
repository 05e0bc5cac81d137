import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { SyntaxVerdict } from "@holdfast/core/adapters";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { createSyntaxGate } from "./syntax-gate.ts";

const signal = new AbortController().signal;

function place(files: Readonly<Record<string, string>>) {
  const root = scratchDirectory(onTestFinished);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return { root, paths: Object.keys(files) };
}

async function check(files: Readonly<Record<string, string>>): Promise<readonly SyntaxVerdict[]> {
  return createSyntaxGate().check({ ...place(files), signal });
}

const brief = (verdict: SyntaxVerdict | undefined): string =>
  verdict?.kind === "failed" ? `failed ${verdict.line}` : (verdict?.kind ?? "nothing");

describe("what parses and what does not, with the line", () => {
  const GOOD = {
    "a.json": '\uFEFF{"a": [1, 2]}',
    "tsconfig.base.json": '{\n// why\n"a": "http://x/*y*/", /* b */ "c": [1,2,],}\n',
    ".vscode/settings.json": "{ // x\n}",
    "b.jsonc": "[1, /* two */ 2,]",
    "a.yaml": "a: &x 1\nb: *x\n---\nc: !Ref d\n",
    "chart/templates/x.yml": "{{- if .Values.x }}\na: {{ .b }}\n{{- end }}\n",
    "cjs.js": "#!/usr/bin/env node\nif (x) return require('y');\n",
    "esm.js": "import x from 'y';\nawait x;\nexport default 1;\n",
    "a.mjs": "export const a = await import('x', { with: { type: 'json' } });\n",
    "a.cjs": "with (a) b();\nreturn;\n",
    "plain.ts": "const a: Map<string, number> = new Map() satisfies unknown;\nexport type { A } from './a.ts';\n",
    "enum.ts":
      "enum A { x }\nnamespace B { export const c = 1 }\nclass C { constructor(private d: number) {} }\n@dec class E {}\n",
    "old.cts": "import x = require('y');\nexport = x;\n",
    "a.py": "def f(x: int) -> None:\n    match x:\n        case 1:\n            print(f'{x!r}')\n",
    "types.pyi": "def f(x: int) -> str: ...\n",
    "a.toml": "[a]\nb = 1979-05-27\n",
    "a.xml": "<?xml version='1.0'?>\n<a><b/></a>\n",
    "a.sh": "for i in 1 2; do\n  echo $i\ndone\n",
    "posix.sh": '#!/bin/sh\n[ -n "$1" ] && echo yes\n',
    "ext.bash": "#!/usr/bin/env -S bash -eu\nshopt -s extglob\nrm !(a|b)\n",
    "empty.py": "",
    "empty.js": "",
  };

  test("good files of every kind", async () => {
    const verdicts = await check(GOOD);
    const odd = verdicts.filter((verdict) => verdict.kind !== "parsed");
    expect(odd).toEqual([
      { kind: "skipped", path: "chart/templates/x.yml", why: "it is a template that becomes YAML later" },
    ]);
    expect(verdicts.map((verdict) => verdict.path)).toEqual(Object.keys(GOOD));
  });

  const BAD: readonly (readonly [name: string, text: string, line: number | null])[] = [
    ["a.json", '{\n"a": 1,\n}', 3],
    ["empty.json", "", 1],
    ["comment.json", "{}\n// no\n", 2],
    ["tsconfig.json", '{\n  // x\n  "a": ,\n}', 3],
    ["a.yaml", "a: 1\nb: [1,\nc: 2\n", 3],
    ["twice.yml", "a: 1\na: 2\n", 2],
    ["a.js", "const a = 1;\nconst = 2;\n", 2],
    ["marker.js", "a();\n<<<<<<< HEAD\nb();\n=======\n>>>>>>> x\n", 2],
    ["esm.js", "import a from 'a';\nlet a b;\n", 2],
    ["twice.mjs", "let a;\nlet a;\n", null],
    ["import.cjs", "import a from 'a';\n", 1],
    ["a.ts", "enum A { x }\nlet b: = 3;\n", 2],
    ["a.py", "def f():\n    return (\n", 2],
    ["tab.py", "if x:\n    a\n\tb\n", 3],
    ["nul.py", "a = 1\0", null],
    ["a.toml", "[a]\nb = \n", 2],
    ["a.xml", "<a>\n<b>\n</a>\n", 3],
    ["a.sh", "if true; then\n  echo\n", 3],
    ["b.bash", "echo $(\nfi\n", 2],
    ["posix.sh", "#!/bin/sh\nwhile true; do\n  echo\nfi\n", 4],
  ];

  test("bad files of every kind", async () => {
    const verdicts = await check(Object.fromEntries(BAD.map(([name, text]) => [name, text])));
    expect(verdicts.map((verdict) => `${verdict.path} ${brief(verdict)}`)).toEqual(
      BAD.map(([name, , line]) => `${name} failed ${line}`),
    );
    for (const verdict of verdicts) expect(verdict).toMatchObject({ message: expect.stringMatching(/\w/) });
  });
});

test("files that cannot be judged are skipped, with the reason", async () => {
  const verdicts = await check({
    "a.tsx": "const a = <b/>;",
    "react.js": "export const a = () => <b>hi</b>;\n",
    "dec.js": "@dec\nclass A {}\n",
    "flow.js": "// @flow\nconst a: number = 1;\n",
    "a.rs": "fn main() {}",
    Makefile: "all:",
    ".env": "A=1",
    "z.sh": "#!/usr/bin/zsh\necho {1..3}(N)\n",
  });
  expect(verdicts.map((verdict) => (verdict.kind === "skipped" ? verdict.why : verdict))).toEqual([
    "Node does not parse JSX",
    "it seems to hold JSX, which Node does not parse",
    "it seems to hold decorators, which Node does not parse",
    "it holds Flow types, which Node does not parse",
    "there is no parser here for .rs files",
    "its name has no ending that shows its language",
    "its name has no ending that shows its language",
    "it is a script for zsh",
  ]);
});

test("names are never options, commands or lines", async () => {
  const bad = [
    "-n.py",
    "--eval=1.js",
    "a b.sh",
    "new\nline.py",
    "$(touch x).bash",
    "quote'\".ts",
    "é✓.json",
    "-c.sh",
    "a;b.yaml",
  ];
  const { root } = place(Object.fromEntries(bad.map((path) => [path, "[ ( {"])));
  const verdicts = await createSyntaxGate().check({ root, paths: bad, signal });
  expect(verdicts.map((verdict) => [verdict.kind, verdict.path])).toEqual(bad.map((path) => ["failed", path]));
  expect(readdirSync(root).toSorted()).toEqual(bad.toSorted());
});

test("only regular files of limited size inside the tree are opened", async () => {
  const { root } = place({ "real/a.py": "(", "big.py": "x".repeat(2 * 1024 * 1024 + 1) });
  const outside = scratchDirectory(onTestFinished);
  writeFileSync(join(outside, "a.py"), "(");
  symlinkSync(join(outside, "a.py"), join(root, "link.py"));
  symlinkSync(outside, join(root, "out"));
  symlinkSync("real", join(root, "in"));
  mkdirSync(join(root, "directory.py"));
  execFileSync("mkfifo", [join(root, "fifo.py")]);
  const paths = [
    "link.py",
    "out/a.py",
    "in/a.py",
    "directory.py",
    "fifo.py",
    "gone.py",
    "big.py",
    "../a.py",
    "/etc/a.py",
  ];
  const verdicts = await createSyntaxGate().check({ root, paths, signal });
  expect(verdicts.map((verdict) => (verdict.kind === "skipped" ? verdict.why : verdict.kind))).toEqual([
    "it is a symbolic link",
    "it lies behind a link that leads out of the worktree",
    "failed",
    "it is not a regular file",
    "it is not a regular file",
    "it is not there any more",
    "it has 2097153 bytes, more than 2097152",
    "it is not a path in the worktree",
    "it is not a path in the worktree",
  ]);
});

test("a missing tool is reported; one in the worktree or at a relative path is never used", async () => {
  const { root, paths } = place({
    "a.py": "(",
    "a.rb": "x",
    "a.go": "x",
    "a.php": "x",
    "a.sh": "(",
    "bin/python3": "#!/bin/sh\n",
  });
  chmodSync(join(root, "bin/python3"), 0o755);
  const verdicts = await createSyntaxGate({ path: "bin:.::relative" }).check({
    root,
    paths: paths.slice(0, 5),
    signal,
  });
  expect(verdicts.map((verdict) => (verdict.kind === "skipped" ? verdict.why : verdict.kind))).toEqual([
    "python3 is not installed",
    "ruby is not installed",
    "gofmt is not installed",
    "php is not installed",
    "bash or sh is not installed",
  ]);
});

test.each([
  ["a.go", "gofmt", "<standard input>:3:5: expected 'IDENT', found 'EOF'", 3, "expected 'IDENT', found 'EOF'"],
  ["a.rb", "ruby", "-:7: syntax error, unexpected end-of-input", 7, "syntax error, unexpected end-of-input"],
  [
    "a.php",
    "php",
    'PHP Parse error:  syntax error, unexpected token ")" in Standard input code on line 4',
    4,
    'syntax error, unexpected token ")"',
  ],
])("%s: the output of %s is parsed", async (name, program, said, line, message) => {
  // These tools are rarely all installed, so a fake program prints the real one's message.
  const { root } = place({ [name]: "text", [`bin/${program}`]: `#!/bin/sh\ncat <<'END' >&2\n${said}\nEND\nexit 1\n` });
  chmodSync(join(root, "bin", program), 0o755);
  const [verdict] = await createSyntaxGate({ path: join(root, "bin") }).check({ root, paths: [name], signal });
  expect(verdict).toEqual({ kind: "failed", path: name, by: program, line, message });
});

test("settings in the worktree and in the environment change nothing, and no file is left there", async () => {
  const ran = join(scratchDirectory(onTestFinished), "ran");
  const { root, paths } = place({
    "a.py": "import b\n",
    "b.py": `open('${ran}', 'w')\n`,
    "sitecustomize.py": `open('${ran}', 'w')\n`,
    ".python-version": "0.0.0\n",
    "a.sh": `: > ${ran}\n`,
    "a.js": `require('fs').writeFileSync('${ran}', '')\n`,
  });
  process.env["BASH_ENV"] = join(root, "a.sh");
  process.env["PYTHONPATH"] = root;
  process.env["NODE_OPTIONS"] = `--require=${join(root, "a.js")}`;
  onTestFinished(() => {
    for (const name of ["BASH_ENV", "PYTHONPATH", "NODE_OPTIONS"]) delete process.env[name];
  });
  const verdicts = await createSyntaxGate().check({ root, paths: ["a.py", "b.py", "a.sh", "a.js"], signal });
  expect(verdicts.map(brief)).toEqual(["parsed", "parsed", "parsed", "parsed"]);
  expect(existsSync(ran)).toBe(false);
  expect(readdirSync(root).toSorted()).toEqual(paths.toSorted());
});

test("a parser that does not end is stopped, and unanswered files are skipped", async () => {
  const { root } = place({ "a.py": "x", "bin/python3": "#!/bin/sh\nexec sleep 600\n", "b.json": "{}" });
  chmodSync(join(root, "bin/python3"), 0o755);
  const path = `${join(root, "bin")}:${process.env["PATH"] ?? ""}`;
  const verdicts = await createSyntaxGate({ path, timeoutMs: 15_000 }).check({
    root,
    paths: ["a.py", "b.json"],
    signal,
  });
  expect(verdicts[0]).toMatchObject({ kind: "skipped", why: "the parser had not come to it after 15 s" });
  expect(verdicts[1]).toMatchObject({ kind: "parsed" });
});

test("an abort is not a verdict", async () => {
  const { root, paths } = place({ "a.py": "x" });
  await expect(
    createSyntaxGate().check({ root, paths, signal: AbortSignal.abort(new Error("stopped")) }),
  ).rejects.toThrow("stopped");
  const abort = new AbortController();
  const running = createSyntaxGate().check({ root, paths, signal: abort.signal });
  abort.abort(new Error("stopped"));
  await expect(running).rejects.toThrow("stopped");
});

test("nesting that overflows a parser affects only that file", async () => {
  const deep = "(".repeat(100_000) + ")".repeat(100_000);
  const verdicts = await check({
    "deep.py": deep,
    "deep.json": "[".repeat(200_000),
    "ok.py": "x = 1\n",
    "ok.json": "{}",
  });
  expect(verdicts.slice(2).map(brief)).toEqual(["parsed", "parsed"]);
  for (const verdict of verdicts.slice(0, 2)) expect(["failed", "skipped"]).toContain(verdict.kind);
});

test("without files there is no verdict", async () => {
  expect(await createSyntaxGate().check({ root: "/nonexistent", paths: [], signal })).toEqual([]);
});
