import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type BuiltCommand, buildCommand } from "@holdfast/test-support/built-command";
import { loadCommands } from "./command-table.ts";
import { commandText, overviewText } from "./commands/help.ts";

const COMMANDS = await loadCommands();

let holdfast: BuiltCommand;
beforeAll(async () => {
  holdfast = await buildCommand();
}, 60_000);
afterAll(() => holdfast.remove());

describe("the entry", () => {
  test("--version needs nothing but the manifest", async () => {
    const { version } = JSON.parse(await readFile(join(holdfast.directory, "package.json"), "utf8"));
    await rename(join(holdfast.directory, "dist"), join(holdfast.directory, "gone"));
    try {
      for (const flag of ["--version", "-V"])
        expect(await holdfast.run([flag])).toEqual({ status: 0, stdout: `${version}\n`, stderr: "" });
      expect(await holdfast.run(["list"])).toMatchObject({
        status: 2,
        stdout: "",
        stderr: expect.stringContaining("not built"),
      });
      expect((await holdfast.run(["--help"])).status).toBe(2);
    } finally {
      await rename(join(holdfast.directory, "gone"), join(holdfast.directory, "dist"));
    }
    expect((await holdfast.run(["list", "--version"])).stdout).toBe(`${version}\n`);
    expect(JSON.parse((await holdfast.run(["--version", "--json"])).stdout)).toEqual({ version });
  });

  test("loads no code of ours for --version and --help", async () => {
    const spy = join(holdfast.directory, "spy.cjs");
    await writeFile(spy, 'process.on("exit", () => process.stderr.write(Object.keys(require.cache).join("\\n")));');
    for (const flag of ["--version", "--help"]) {
      expect((await holdfast.run([flag], { node: ["--require", spy] })).stderr).not.toContain("main.cjs");
    }
    expect((await holdfast.run(["help", "list"], { node: ["--require", spy] })).stderr).toContain("main.cjs");
  });

  test("the baked help is the help", async () => {
    for (const args of [[], ["--help"], ["-h"], ["help"], ["help", "--quiet"], ["--no-color", "--help"]]) {
      expect(await holdfast.run(args), args.join(" ")).toEqual({
        status: 0,
        stdout: overviewText(COMMANDS),
        stderr: "",
      });
    }
  });

  test.each(COMMANDS.map(({ spec }) => spec).filter(({ name }) => ["list", "restore", "complete"].includes(name)))(
    "$name --help",
    async (spec) => {
      expect(await holdfast.run([spec.name, "--help"])).toEqual({ status: 0, stdout: commandText(spec), stderr: "" });
    },
  );

  test("help COMMAND is COMMAND --help", async () => {
    expect(await holdfast.run(["help", "list"])).toEqual(await holdfast.run(["list", "--help"]));
    const subcommand = await holdfast.run(["help", "format", "import"]);
    expect(subcommand.stdout).toContain("Usage: holdfast format import FILE...");
    expect(subcommand).toEqual(await holdfast.run(["--no-color", "format", "--quiet", "import", "--help"]));
  });

  test("an older Node hands over to a bundled one, or prints the required version", async () => {
    const old = join(holdfast.directory, "old-node.cjs");
    await writeFile(
      old,
      'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.20.2" } });',
    );
    const handedOver = await holdfast.run(["help", "list"], { node: ["--require", old] });
    expect(handedOver.stdout).toContain("holdfast list:");
    const alone = await holdfast.run(["list"], { node: ["--require", old], env: { HOLDFAST_REEXECUTED: "1" } });
    expect(alone.status).toBe(2);
    expect(alone.stderr).toMatch(/^error: holdfast needs Node \^22\.22\.3 \|\| .*, but this is Node 20\.20\.2 .*\n$/);
    expect((await holdfast.run(["lst"], { node: ["--require", old] })).status).toBe(2);
  });

  test.each([
    ["22.22.2", false],
    ["22.22.3", true],
    ["22.23.0", true],
    ["23.11.0", false],
    ["24.14.1", false],
    ["24.15.0", true],
    ["25.9.0", false],
    ["26.0.0", true],
    ["30.1.0", true],
  ])("Node %s is supported: %s", async (version, served) => {
    const fake = join(holdfast.directory, `node-${version}.cjs`);
    await writeFile(
      fake,
      `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } });`,
    );
    const { status } = await holdfast.run(["help", "list"], {
      node: ["--require", fake],
      env: { HOLDFAST_REEXECUTED: "1" },
    });
    expect(status).toBe(served ? 0 : 2);
  });

  test("on Windows every command is refused in one sentence, before anything is opened", async () => {
    const windows = join(holdfast.directory, "windows.cjs");
    await writeFile(windows, 'Object.defineProperty(process, "platform", { value: "win32" });');
    for (const args of [["checkpoint"], ["run", "1"], ["help"], []]) {
      expect(await holdfast.run(args, { node: ["--require", windows] })).toMatchObject({
        status: 2,
        stdout: "",
        stderr:
          "error: Holdfast does not run on Windows itself: use WSL2 and keep the repository in its Linux file system, not under /mnt/c\n",
      });
    }
  });
});

describe("usage errors", () => {
  test.each([
    [
      ["service", "uninstall"],
      'error: ACTION cannot be "uninstall"\nhint:  Did you mean remove? One of: install, status, remove.\n',
    ],
    [["lst"], 'error: There is no command "lst"\nhint:  Did you mean `holdfast list`?\n'],
    [["rewind"], 'error: There is no command "rewind"\nhint:  Did you mean `holdfast restore`?\n'],
    [["log"], 'error: There is no command "log"\nhint:  Did you mean `holdfast events`?\n'],
    [["pause"], 'error: There is no command "pause"\nhint:  Did you mean `holdfast stop --after-step`?\n'],
    [["abort", "x"], 'error: There is no command "abort"\nhint:  Did you mean `holdfast stop --now`?\n'],
    [["init"], 'error: There is no command "init"\nhint:  Did you mean `holdfast setup --defaults`?\n'],
    [["help", "graft"], 'error: There is no command "graft"\nhint:  Did you mean `holdfast cherry-pick`?\n'],
    [["import", "--help"], 'error: There is no command "import"\nhint:  Did you mean `holdfast format import`?\n'],
    [
      ["format"],
      "error: An argument is missing: `holdfast format` needs SUBCOMMAND (import, export, convert, validate, mirror, schema)\nhint:  See `holdfast format --help`.\n",
    ],
    [
      ["format", "imprt"],
      'error: SUBCOMMAND cannot be "imprt"\nhint:  Did you mean import? One of: import, export, convert, validate, mirror, schema.\n',
    ],
    [["xyzzy"], 'error: There is no command "xyzzy"\nhint:  See `holdfast help`.\n'],
    [["help", "rstore"], 'error: There is no command "rstore"\nhint:  Did you mean `holdfast restore`?\n'],
    [["list", "--limt", "5"], "error: There is no flag --limt in holdfast list\nhint:  Did you mean --limit?\n"],
    [["--jsn"], "error: There is no flag --jsn in holdfast\nhint:  Did you mean --json?\n"],
    [["list", "--limit", "many"], 'error: --limit needs a whole number, not "many"\nhint:  For example --limit 20.\n'],
    [
      ["list", "--cwd", "/no/such/place"],
      "error: --cwd /no/such/place is not a directory\nhint:  Give a directory that exists.\n",
    ],
    [["l\u001b[31mst\u0007x"], 'error: There is no command "l\\x1b[31mst\\x07x"\nhint:  See `holdfast help`.\n'],
  ])("%j", async (args, stderr) => {
    expect(await holdfast.run(args)).toEqual({ status: 2, stdout: "", stderr });
  });

  test("with --json they are one line on stderr, and stdout stays empty", async () => {
    const { status, stdout, stderr } = await holdfast.run(["list", "--json", "--limt", "5"]);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(JSON.parse(stderr)).toEqual({
      error: {
        code: "USAGE",
        message: "There is no flag --limt in holdfast list",
        hint: "Did you mean --limit?",
        retry: "never",
        data: {},
      },
    });
  });
});

test("help as data", async () => {
  const { commands } = JSON.parse((await holdfast.run(["help", "--json"])).stdout);
  expect(commands).toHaveLength(COMMANDS.filter(({ spec }) => spec.hidden !== true).length);
  const list = commands.find(({ name }: { readonly name: string }) => name === "list");
  expect(list).toMatchObject({ flags: { limit: { type: "text" } } });
  for (const args of [
    ["list", "--help", "--json"],
    ["help", "list", "--json"],
  ]) {
    expect(JSON.parse((await holdfast.run(args)).stdout)).toEqual({
      commands: [{ ...list, schema: expect.any(Object) }],
    });
  }
});

test("completion scripts", async () => {
  for (const shell of ["bash", "zsh", "fish"]) {
    expect((await holdfast.run(["completion", shell])).stdout).toContain("holdfast complete --");
  }
  expect((await holdfast.run(["completion", "tcsh"])).status).toBe(2);
  expect((await holdfast.run(["complete", "--", "res"])).stdout).toBe("resume\nrestore\n");
  expect(await holdfast.run(["complete", "--", "restore", "x@"])).toEqual({ status: 0, stdout: "", stderr: "" });
});
