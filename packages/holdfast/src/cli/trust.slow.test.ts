import { existsSync, readdirSync, statSync } from "node:fs";
import { appendFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { canFakeTerminal, typeInTerminal } from "@holdfast/test-support/typed-terminal";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { GOOD, type WorkPlace, workSuite, workflowSource } from "@holdfast/test-support/cli-repositories";

const suite = workSuite();

/** A place whose commands have no consent but what is recorded, and the file that its settings would leave. */
async function begin(config: (touch: (name: string) => string) => string) {
  const place = await suite.begin();
  const home = join(place.clone, "..");
  const touch = (name: string): string => `touch '${join(home, `${name}.marker`)}'`;
  await writeFile(join(place.clone, "holdfast.config.yaml"), config(touch));
  const env = { HOLDFAST_TRUST: "", XDG_STATE_HOME: join(home, "state") };
  return {
    place,
    env,
    state: join(home, "state/holdfast/trust"),
    markers: () => readdirSync(home).filter((name) => name.endsWith(".marker")),
    run: (words: readonly string[], more: Readonly<Record<string, string>> = {}) =>
      place.holdfast.run(words, { cwd: place.clone, env: { ...env, ...more } }),
  };
}

async function agentOf(place: WorkPlace): Promise<readonly string[]> {
  return ["run", "1", "--no-review", "--agent", await place.agent([GOOD])];
}

describe("settings of a repository that need consent", () => {
  test("stop a run with status 4, a list and the command; with consent it runs, until a value changes", async () => {
    const { place, run, markers, state } = await begin((touch) => `impl:\n  gate: ${touch("gate")}\n  yolo: true\n`);
    const words = await agentOf(place);
    const refused = await run(words);
    expect(refused.status).toBe(4);
    expect(refused.stderr).toContain("2 settings that need your consent");
    expect(refused.stderr).toMatch(/impl\.gate: touch .* \(holdfast\.config\.yaml:2\)/);
    expect(refused.stderr).toContain("impl.yolo: true (holdfast.config.yaml:3)");
    expect(refused.stderr).toContain("holdfast trust");
    expect(existsSync(join(place.clone, ".git/holdfast"))).toBe(false);

    const shown = await run(["trust"]);
    expect(shown.status).toBe(4);
    expect(shown.stdout).toMatch(/impl\.gate: touch .*: runs a command/);
    expect(existsSync(state)).toBe(false);
    expect(await run(["trust", "--yes"])).toMatchObject({ status: 0 });
    const [file = ""] = readdirSync(state);
    expect([statSync(state).mode & 0o777, statSync(join(state, file)).mode & 0o777]).toEqual([0o700, 0o600]);

    const done = await run(words);
    expect(done, done.stderr).toMatchObject({ status: 0 });
    expect(markers()).toEqual(["gate.marker"]);
    await appendFile(join(place.clone, "holdfast.config.yaml"), "agents:\n  args: { claude: [--verbose] }\n");
    const again = await run(["resume", "issue-1"]);
    expect(again.status).toBe(4);
    expect(again.stderr).toContain('agents.args: {"claude":["--verbose"]} (holdfast.config.yaml:5)');
    expect(again.stderr).not.toContain("impl.gate");

    const listed = JSON.parse((await run(["trust", "--list", "--json"])).stdout);
    expect(listed.repositories).toMatchObject([{ repository: join(place.clone, ".git") }]);
    expect(await run(["trust", "--revoke"])).toMatchObject({ status: 0 });
    expect((await run(words)).status).toBe(4);
  });

  test("a flag that replaces a setting needs no consent, nor does --no-config", async () => {
    const { place, run, markers } = await begin(
      (touch) =>
        `agent: "command:${touch("agent")}"\nmodels:\n  review: "command:${touch("review")}"\nimpl:\n  gate: ${touch("gate")}\n  yolo: true\n`,
    );
    const words = await agentOf(place);
    const { uses } = JSON.parse((await run([...words, "--dry-run", "--json"])).stdout).plan;
    const chosen = words[words.indexOf("--agent") + 1];
    expect(uses.agents.map(({ agent }: { agent: string }) => agent)).toEqual(uses.agents.map(() => chosen));
    expect(uses).toMatchObject({ yolo: true, hooks: "pre-push of git, when the branch is pushed" });
    expect(uses.gate).toContain("gate.marker");
    expect((await run([...words, "--gate", "true"])).stderr).toContain("1 setting");
    const replaced = await run([...words, "--gate", "true", "--no-yolo"]);
    expect(replaced, replaced.stderr).toMatchObject({ status: 0 });
    const ignored = await run([...words, "--no-config", "--again"]);
    expect(ignored, ignored.stderr).toMatchObject({ status: 0 });
    expect(markers()).toEqual([]);
  });

  test("--trust and HOLDFAST_TRUST are consent; a digest only to the settings that it was made from", async () => {
    const { place, run, markers, state } = await begin((touch) => `impl:\n  gate: ${touch("gate")}\n`);
    const words = await agentOf(place);
    const { digest } = JSON.parse((await run(["trust", "--json"])).stdout);
    expect(digest).toMatch(/^[0-9a-f]{32}$/);
    expect((await run(words, { HOLDFAST_TRUST: "0".repeat(32) })).status).toBe(4);
    expect((await run(words, { HOLDFAST_TRUST: "yes" })).status).toBe(2);
    const byDigest = await run(words, { HOLDFAST_TRUST: digest });
    expect(byDigest, byDigest.stderr).toMatchObject({ status: 0 });
    expect(markers()).toEqual(["gate.marker"]);
    expect(existsSync(state)).toBe(false);
    const config = join(place.clone, "holdfast.config.yaml");
    await writeFile(config, (await readFile(config, "utf8")).replace("gate.marker", "other.marker"));
    expect((await run([...words, "--again"], { HOLDFAST_TRUST: digest })).status).toBe(4);
    const flagged = await run([...words, "--again", "--trust"]);
    expect(flagged, flagged.stderr).toMatchObject({ status: 0 });
    expect(await run([...words, "--again"])).toMatchObject({ status: 0 });
    expect(markers()).toEqual(["gate.marker", "other.marker"]);
  });

  test("the content of a prompt and of a file of crunch's teams is part of the consent", async () => {
    const { place, run } = await begin(() => "impl:\n  prompts:\n    impl: prompt.md\n");
    await writeFile(join(place.clone, "prompt.md"), "Do it. {{issue}}\n");
    await mkdir(join(place.clone, ".holdfast/crunch"), { recursive: true });
    await writeFile(join(place.clone, ".holdfast/crunch/team.yaml"), "leastPoints: 2\n");
    expect(await run(["trust", "--yes"])).toMatchObject({ status: 0 });
    const untrusted = async (): Promise<readonly string[]> =>
      JSON.parse((await run(["trust", "--json"])).stdout)
        .settings.filter((one: { trusted: boolean }) => !one.trusted)
        .map((one: { key: string }) => one.key);
    expect(await untrusted()).toEqual([]);
    await writeFile(join(place.clone, "prompt.md"), "Do something else.\n");
    expect(await untrusted()).toEqual(["impl.prompts.impl"]);
    await writeFile(join(place.clone, ".holdfast/crunch/team.yaml"), "leastPoints: 3\n");
    expect(await untrusted()).toEqual(["impl.prompts.impl", ".holdfast/crunch/team.yaml"]);
  });

  test("a prompt template in the repository stops a run until the user consents to its text", async () => {
    const { place, run } = await begin(() => "");
    const path = join(place.clone, ".holdfast/prompts/impl/impl.md");
    const { prompts } = JSON.parse((await run(["config", "--prompts", "--json"])).stdout);
    const builtIn = prompts.find(
      (one: { workflow: string; name: string }) => one.workflow === "impl" && one.name === "impl",
    );
    await mkdir(join(path, ".."), { recursive: true });
    await writeFile(path, `${builtIn.text}\nMARKED BY THE REPOSITORY\n`);
    const words = await agentOf(place);
    const refused = await run(words);
    expect(refused.status).toBe(4);
    expect(refused.stderr).toContain(".holdfast/prompts/impl/impl.md");
    expect(existsSync(join(place.clone, ".git/holdfast"))).toBe(false);

    expect(await run(["trust", "--yes"])).toMatchObject({ status: 0 });
    await appendFile(path, "CHANGED AFTER THE CONSENT\n");
    expect((await run(words)).status).toBe(4);
    expect(await run(["trust", "--yes"])).toMatchObject({ status: 0 });
    const done = await run(words);
    expect(done, done.stderr).toMatchObject({ status: 0 });
  });

  test("a store without consent is not read and not written, and a reader says so", async () => {
    const { place, run } = await begin(() => "store: ../outside\nworkspace:\n  includeIgnored: true\n");
    const outside = join(place.clone, "../outside");
    expect((await run(["checkpoint"])).status).toBe(4);
    const listed = await run(["list"]);
    expect(listed.stderr).toContain("store: ../outside (holdfast.config.yaml:1) needs your consent and is not used");
    expect(existsSync(outside)).toBe(false);
    expect((await run(["checkpoint", "--store", join(place.clone, ".git/mine")])).stderr).toContain("includeIgnored");
    expect(await run(["checkpoint", "--no-config"])).toMatchObject({ status: 0 });
    expect(existsSync(outside)).toBe(false);
    expect(await run(["checkpoint", "--trust"])).toMatchObject({ status: 0 });
    expect(existsSync(outside)).toBe(true);
  });

  test("settings that setup writes are trusted, and no others of the file", async () => {
    const { run } = await begin((touch) => `ralph:\n  until: ${touch("until")}\n`);
    const chosen = ["--gate", "make check", "--setup", "make deps", "--forge", "none", "--agent", "command:true"];
    expect(await run(["setup", "--yes", ...chosen])).toMatchObject({ status: 0 });
    const { settings } = JSON.parse((await run(["trust", "--json"])).stdout);
    const trusted = Object.fromEntries(
      settings.map((one: { key: string; trusted: boolean }) => [one.key, one.trusted]),
    );
    expect(trusted).toMatchObject({ "ralph.until": false, "impl.gate": true, "workspace.setup": true });
  });

  test("a workflow file is trusted as named on the command line, and asked about on resume once it changed", async () => {
    const { place, run, markers } = await begin(() => "");
    const file = join(place.clone, "asking.ts");
    await writeFile(file, workflowSource(ASKING));
    const waiting = await run(["run", "--task", "Ask me", "--workflow", "asking.ts"]);
    expect(waiting.status, waiting.stdout + waiting.stderr).toBe(4);
    const { id } = JSON.parse((await run(["approve", "--json"])).stdout).run;
    expect((await run(["resume", id])).stderr).not.toContain("consent");
    const marker = JSON.stringify(join(place.clone, "../flow.marker"));
    const changed = `import { writeFileSync } from "node:fs";\nwriteFileSync(${marker}, "");\n${workflowSource(ASKING)}`;
    await writeFile(file, changed);
    for (const words of [
      ["resume", id],
      ["resume", id, "--dry-run"],
      ["replay", id],
      ["rerun", id],
    ]) {
      const refused = await run(words);
      expect(refused, words.join(" ") + refused.stdout + refused.stderr).toMatchObject({
        status: 4,
        stderr: expect.stringContaining("asking.ts"),
      });
    }
    expect(markers()).toEqual([]);
    await run(["resume", id, "--trust"]);
    expect(markers()).toEqual(["flow.marker"]);
  });

  test("HOLDFAST_TRUST covers the content of its digests and nothing else; trust RUN grants the rest", async () => {
    const { place, run, markers } = await begin(() => "impl:\n  yolo: true\n");
    const file = join(place.clone, "asking.ts");
    await writeFile(file, workflowSource(ASKING));
    const { digest } = JSON.parse((await run(["trust", "--json"])).stdout);
    const settings = { HOLDFAST_TRUST: digest };
    await run(["run", "--task", "Ask me", "--workflow", "asking.ts"], settings);
    const { id } = JSON.parse((await run(["approve", "--json"], settings)).stdout).run;
    const marker = JSON.stringify(join(place.clone, "../flow.marker"));
    const changed = `import { writeFileSync } from "node:fs";\nwriteFileSync(${marker}, "");\n${workflowSource(ASKING)}`;
    await writeFile(file, changed);
    const refused = await run(["resume", id], settings);
    expect(refused.status, refused.stdout + refused.stderr).toBe(4);
    expect(markers()).toEqual([]);
    const [, value = ""] = /HOLDFAST_TRUST=(\S+?)\.\s/.exec(refused.stderr.replaceAll("\n", " ")) ?? [];
    expect(value.split(",")).toEqual([digest, expect.stringMatching(/^[0-9a-f]{32}$/)]);
    await run(["resume", id], { HOLDFAST_TRUST: value });
    expect(markers()).toEqual(["flow.marker"]);
    await writeFile(file, `${changed}// changed again\n`);
    expect((await run(["resume", id], { HOLDFAST_TRUST: value })).status).toBe(4);
    const granted = JSON.parse((await run(["trust", id, "--yes", "--json"])).stdout);
    expect(granted.settings).toEqual(
      expect.arrayContaining([expect.objectContaining({ key: "asking.ts", trusted: true })]),
    );
    expect(granted.digest).not.toBe(value);
  });

  test("the files that a workflow file imports are part of its consent", async () => {
    const { place, run, markers } = await begin(() => "");
    await writeFile(join(place.clone, "asking.ts"), `import "./steps/one.ts";\n${workflowSource(ASKING)}`);
    await mkdir(join(place.clone, "steps"));
    await writeFile(join(place.clone, "steps/one.ts"), 'export * from "./two.ts";\n');
    await writeFile(join(place.clone, "steps/two.ts"), "export {};\n");
    await run(["run", "--task", "Ask me", "--workflow", "asking.ts"]);
    const { id } = JSON.parse((await run(["approve", "--json"])).stdout).run;
    expect((await run(["resume", id])).stderr).not.toContain("consent");
    const marker = JSON.stringify(join(place.clone, "../import.marker"));
    const hostile = `import { writeFileSync } from "node:fs";\nwriteFileSync(${marker}, "");\nexport {};\n`;
    await writeFile(join(place.clone, "steps/two.ts"), hostile);
    const refused = await run(["resume", id]);
    expect(refused, refused.stderr).toMatchObject({ status: 4, stderr: expect.stringContaining("asking.ts") });
    expect(markers()).toEqual([]);
  });

  test("an import counts in any spelling", async () => {
    const { place, run } = await begin(() => "");
    const source = `import { createRequire } from "node:module";
import "./h1.mjs?v=1";
import "./h%32.mjs";
import "#h3";
import './h\\u0034.mjs';
const require = createRequire(import.meta.url);
require("./lib5"); /* don't */
const quote = '"'; await import(new URL("h6.mjs", import.meta.url).href);
require("./steps");
${workflowSource(ASKING)}`;
    const files = [
      "h1.mjs",
      "h2.mjs",
      "h3.mjs",
      "h4.mjs",
      "lib5/five.js",
      "h6.mjs",
      "steps/start.js",
      "steps/index.js",
    ];
    const write = async (path: string, text: string): Promise<void> => {
      await mkdir(join(place.clone, path, ".."), { recursive: true });
      await writeFile(join(place.clone, path), text);
    };
    for (const file of files) await write(file, "\n");
    await write("steps/index.js", 'require("./start.js");\n');
    await write("steps/start.js", 'require(".");\n');
    await write("lib5/package.json", JSON.stringify({ main: "five.js" }));
    await write("package.json", JSON.stringify({ imports: { "#h3": { import: "./h3.mjs", default: "./none.js" } } }));
    await write("README.md", "One\n");
    await write("asking.ts", `${source}\nconst read = "README.md";\n`);
    const waiting = await run(["run", "--task", "Ask me", "--workflow", "asking.ts"]);
    expect(waiting.status, waiting.stdout + waiting.stderr).toBe(4);
    const { id } = JSON.parse((await run(["approve", "--json"])).stdout).run;
    const isTrusted = async (): Promise<boolean> =>
      JSON.parse((await run(["trust", id, "--json"])).stdout).settings.find(
        ({ key }: { key: string }) => key === "asking.ts",
      ).trusted;
    await write("README.md", "Two\n");
    expect(await isTrusted()).toBe(true);
    const missed: string[] = [];
    for (const file of files) {
      const before = await readFile(join(place.clone, file), "utf8");
      await write(file, `${before}// changed\n`);
      if (await isTrusted()) missed.push(file);
      await write(file, before);
    }
    expect(missed).toEqual([]);
    expect(await isTrusted()).toBe(true);
  });

  test("scripts that crunch's teams name are part of the consent", async () => {
    const { place, run } = await begin(() => "");
    await mkdir(join(place.clone, ".holdfast/crunch"), { recursive: true });
    await writeFile(
      join(place.clone, ".holdfast/crunch/agents.yaml"),
      'agents:\n  dev-python: { agent: "command:./x.sh", always: true }\n',
    );
    await writeFile(join(place.clone, "x.sh"), "#!/bin/sh\n");
    expect(await run(["trust", "--yes"])).toMatchObject({ status: 0 });
    await writeFile(join(place.clone, "x.sh"), "#!/bin/sh\necho changed\n");
    const refused = await run(["run", "1", "--workflow", "crunch"]);
    expect(refused, refused.stdout + refused.stderr).toMatchObject({
      status: 4,
      stderr: expect.stringContaining("x.sh"),
    });
    expect(existsSync(join(place.clone, ".git/holdfast"))).toBe(false);
  });

  test("a script that changed on the base branch does not run until the user consents to it as it is there", async () => {
    const { place, run, markers } = await begin(() => 'agent: "command:./x.sh"\n');
    const script = async (name: string): Promise<void> => {
      const marker = join(place.clone, `../${name}.marker`);
      await writeFile(join(place.clone, "x.sh"), `#!/bin/sh\ntouch '${marker}'\n`, { mode: 0o755 });
      await place.git("add", "-A");
      await place.git("commit", "-qm", name);
    };
    await script("old");
    expect(await run(["trust", "--yes"])).toMatchObject({ status: 0 });
    await script("new");
    await place.git("push", "-q", "origin", "HEAD:main");
    await place.git("reset", "-q", "--hard", "HEAD~1");
    const until = `test -e '${join(place.clone, "../new.marker")}'`;
    const words = ["--workflow", "ralph", "--task", "Loop", "--base", "main", "--max", "2", "--until", until];
    const waiting = await run(["run", ...words]);
    expect(waiting, waiting.stdout + waiting.stderr).toMatchObject({
      status: 4,
      stdout: expect.stringContaining("command was not started"),
    });
    expect(markers()).toEqual([]);
    const { runs } = JSON.parse((await run(["list", "--json"])).stdout);
    const id: string = runs[0].id;
    const refused = await run(["resume", id]);
    expect(refused).toMatchObject({ status: 4, stderr: expect.stringContaining("x.sh (") });
    expect(refused.stderr.replaceAll(/\s+/g, " ")).toContain(`holdfast trust ${id}`);
    expect(markers()).toEqual([]);
    const { digest, settings } = JSON.parse((await run(["trust", id, "--json"])).stdout);
    expect(settings.filter((one: { trusted: boolean }) => !one.trusted)).toHaveLength(1);
    const resumed = await run(["resume", id], { HOLDFAST_TRUST: digest });
    expect(resumed, resumed.stdout + resumed.stderr).toMatchObject({ status: 0 });
    expect(markers()).toEqual(["new.marker"]);
  });

  test("project files of the run's agent that can start programs need consent, also under --no-config", async () => {
    const { place, run } = await begin(() => "");
    await mkdir(join(place.clone, ".claude"));
    const hooks = { SessionStart: [{ hooks: [{ type: "command", command: "touch it" }] }] };
    await writeFile(join(place.clone, ".claude/settings.json"), JSON.stringify({ hooks }));
    await writeFile(join(place.clone, ".mcp.json"), "{}");
    for (const words of [
      ["--agent", "claude"],
      ["--agent", "claude:opus", "--no-config"],
    ]) {
      const refused = await run(["run", "1", ...words, "--json"]);
      expect(refused.status, refused.stderr).toBe(4);
      const { error } = JSON.parse(refused.stderr);
      expect(error.data.items).toMatchObject([
        { key: ".claude/settings.json", danger: "loads" },
        { key: ".mcp.json", danger: "loads" },
      ]);
    }
    expect(existsSync(join(place.clone, ".git/holdfast"))).toBe(false);
    const other = await run(await agentOf(place));
    expect(other, other.stderr).toMatchObject({ status: 0 });
  });

  test("an agent that writes such a file is not called again until the user consents to it", async () => {
    const { place, run, markers } = await begin(() => "");
    const count = `n=$(ls '${join(place.clone, "..")}' | grep -c call); touch '${join(place.clone, "..")}'/call$n.marker`;
    const agent = `command:${count}; mkdir -p .claude; echo '{"hooks":{}}' > .claude/settings.json; : claude`;
    const words = ["--workflow", "ralph", "--task", "Loop", "--until", "false", "--max", "3", "--agent", agent];
    const waiting = await run(["run", ...words]);
    expect(waiting, waiting.stdout + waiting.stderr).toMatchObject({
      status: 4,
      stdout: expect.stringContaining(".claude/settings.json"),
    });
    expect(markers()).toEqual(["call0.marker"]);
    const { runs } = JSON.parse((await run(["list", "--json"])).stdout);
    await run(["resume", runs[0].id, "--trust"]);
    expect(markers()).toEqual(["call0.marker", "call1.marker", "call2.marker"]);
  });

  test.each(sampleBySeed([["--trust"], ["HOLDFAST_TRUST=1"]], 1))(
    "an agent that rewrites itself is not called again under %s",
    async (way) => {
      const { place, run, markers } = await begin(() => 'agent: "command:./x.sh"\n');
      const home = join(place.clone, "..");
      const write = (text: string): Promise<void> => writeFile(join(place.clone, "x.sh"), text, { mode: 0o755 });
      await write("#!/bin/sh\n");
      await place.git("add", "-A");
      await place.git("commit", "-qm", "old");
      await write(`#!/bin/sh\ntouch '${home}/first.marker'\necho "touch '${home}/second.marker'" > x.sh\n`);
      await place.git("commit", "-qam", "new");
      await place.git("push", "-q", "origin", "HEAD:main");
      await place.git("reset", "-q", "--hard", "HEAD~1");
      const [flags, env] = way === "--trust" ? [["--trust"], {}] : [[], { HOLDFAST_TRUST: "1" }];
      const words = ["--workflow", "ralph", "--task", "Loop", "--base", "main", "--until", "false", "--max", "3"];
      const waiting = await run(["run", ...words, ...flags], env);
      expect(waiting, waiting.stdout + waiting.stderr).toMatchObject({
        status: 4,
        stdout: expect.stringContaining("command was not started"),
      });
      expect(markers()).toEqual(["first.marker"]);
      const { runs } = JSON.parse((await run(["list", "--json"])).stdout);
      const refused = await run(["resume", runs[0].id]);
      expect(refused).toMatchObject({ status: 4, stderr: expect.stringContaining("x.sh (") });
      expect(markers()).toEqual(["first.marker"]);
      await run(["resume", runs[0].id, ...flags], env);
      expect(markers()).toEqual(["first.marker", "second.marker"]);
    },
  );

  test("files that an agent's command reads or writes raise no question", async () => {
    const { place, run, markers } = await begin(() => "");
    const home = join(place.clone, "..");
    const count = `n=$(ls '${home}' | grep -c call); touch '${home}'/call$n.marker`;
    const work =
      "echo $n | tee -a agent.log >> greet.txt; cp greet.txt out.js; cat README.md greet.txt out.js >> README.md.new";
    const agent = `command:${count}; ${work}`;
    const words = ["--workflow", "ralph", "--task", "Loop", "--until", `test -e '${home}/call2.marker'`, "--max", "3"];
    const done = await run(["run", ...words, "--agent", agent]);
    expect(done, done.stdout + done.stderr).toMatchObject({ status: 0 });
    expect(markers()).toEqual(["call0.marker", "call1.marker", "call2.marker"]);
  });

  test("trust lists the commands that start files which it cannot check", async () => {
    const { place, run } = await begin(() => 'agent: "command:npm run agent"\nmodels:\n  review: "command:./x.sh"\n');
    const lines = (await run(["trust"])).stdout.split("\n").filter((line) => line.includes("runs a command"));
    expect(lines.map((line) => line.includes("what this starts cannot be checked for changes"))).toEqual([true, false]);
    const { settings } = JSON.parse((await run(["trust", "--json"])).stdout);
    expect(settings.map(({ note }: { note?: string }) => note)).toEqual([expect.stringContaining("cannot"), undefined]);
    // Of a broken file it lists nothing, and does not say that there is nothing.
    await appendFile(join(place.clone, "holdfast.config.yaml"), 'gate: "unclosed\n');
    const broken = await run(["trust", "--yes"]);
    expect([broken.status, broken.stdout], broken.stderr).toEqual([2, ""]);
    expect(broken.stderr).toContain("[CONFIG_INVALID]");
  });

  test("trust prints how many lines of a file are hidden, and --show prints all of them", async () => {
    const { place, run } = await begin(() => "impl:\n  prompts:\n    impl: prompt.md\n");
    const lines = Array.from({ length: 90 }, (_, index) => `Line ${index + 1} of the prompt.`);
    await writeFile(join(place.clone, "prompt.md"), `${lines.join("\n")}\n`);
    const short = (await run(["trust"])).stdout;
    expect(short).toContain("30 more lines are not shown; to see all: holdfast trust --show");
    expect(short).not.toContain("Line 90 ");
    expect((await run(["trust", "--show"])).stdout).toContain("Line 90 of the prompt.");
    expect(await run(["trust", "--yes"])).toMatchObject({ status: 0 });
    expect((await run(["trust", "--show"])).stdout).toContain("Line 90 of the prompt.");
  });

  test("an imported loop does not run the commands of its document without consent", async () => {
    const { place, run, markers } = await begin(() => "");
    const agent = await place.agent([{ reply: "I tried" }]);
    const until = `touch '${join(place.clone, "../until.marker")}'; false`;
    const loop = ["run", "--workflow", "ralph", "--task", "Loop", "--max", "1", "--no-first-check", "--agent", agent];
    await run([...loop, "--until", "false"]);
    const { runs } = JSON.parse((await run(["list", "--json"])).stdout);
    const document = join(place.clone, "../loop.json");
    expect(await run(["format", "export", runs[0].id, "--to", "loop-json", "--output", document])).toMatchObject({
      status: 0,
    });
    const text = await readFile(document, "utf8");
    expect(text).toContain('"command"');
    await writeFile(document, text.replaceAll(/"command": ?"false"/g, `"command": ${JSON.stringify(until)}`));
    await run(["format", "import", document, "--run", "theirs"]);
    const refused = await run(["resume", "theirs", "--agent", agent, "--max", "3"]);
    expect(refused, refused.stdout + refused.stderr).toMatchObject({
      status: 4,
      stderr: expect.stringContaining("the imported document of theirs"),
    });
    expect(markers()).toEqual([]);
  });

  test("a loop of AIWG does not run its completion criterion without consent, nor change anything", async () => {
    const { place, run, markers } = await begin(() => "");
    const agent = await place.agent([{ edits: [{ do: "write", path: "answer.txt", text: "42\n" }], reply: "done" }]);
    const loop = join(place.clone, ".aiwg/ralph/loops/ralph-fix-tests-a1b2c3d4");
    await mkdir(join(loop, "checkpoints"), { recursive: true });
    const path = new URL(
      "../../../formats/golden/loop-json/.aiwg/ralph/loops/ralph-fix-tests-a1b2c3d4/checkpoints/iteration-005.json",
      import.meta.url,
    );
    await writeFile(join(loop, "checkpoints/iteration-005.json"), await readFile(path));
    const criterion = `touch '${join(place.clone, "../until.marker")}'; grep -q 42 answer.txt`;
    await writeFile(join(loop, "state.json"), JSON.stringify({ task: "Answer", completion_criteria: criterion }));
    const imported = JSON.parse((await run(["--json", "format", "import", ".aiwg"])).stdout);
    const id: string = imported.run;
    const state = async () => [
      (await run(["--json", "log", id])).stdout,
      await place.git("for-each-ref"),
      await place.git("worktree", "list"),
    ];
    const before = await state();
    const refused = await run(["resume", id, "--agent", agent, "--max", "7"]);
    expect(refused, refused.stdout + refused.stderr).toMatchObject({
      status: 4,
      stderr: expect.stringContaining(`the imported document of ${id}`),
    });
    expect(refused.stderr).toMatch(/until\.marker[^]*--trust/);
    expect([markers(), await state()]).toEqual([[], before]);

    const trusted = await run(["resume", id, "--agent", agent, "--max", "7", "--trust"]);
    expect(trusted, trusted.stderr).toMatchObject({ status: 0, stdout: expect.stringContaining("Iteration 6") });
    expect(markers()).toEqual(["until.marker"]);
    // The agent was typed and the document is consented to: a later resume asks about neither.
    const later = await run(["resume", `${id}@latest`, "--force", "--dry-run"]);
    expect(later.stdout, later.stderr).toMatch(/consent +nothing is missing/);
  });

  test("a run that another machine wrote to a file does not run its commands without consent", async () => {
    const { place, run, env, markers } = await begin(() => "");
    const agent = await place.agent([{ reply: "I tried" }]);
    const until = `touch '${join(place.clone, "../until.marker")}'; false`;
    const loop = ["run", "--workflow", "ralph", "--task", "Loop", "--max", "1", "--no-first-check", "--agent", agent];
    await run([...loop, "--until", until]);
    const { runs } = JSON.parse((await run(["list", "--json"])).stdout);
    const { id } = runs[0];
    const file = join(place.clone, "../loop.run");
    const exported = await run(["format", "export", id, "--to", "run", "--output", file]);
    expect(exported, exported.stderr).toMatchObject({ status: 0 });
    await rm(join(place.clone, "../until.marker"));

    const cwd = join(place.clone, "../elsewhere");
    await place.git("clone", "-q", place.remote, cwd);
    const there = (...words: readonly string[]) => place.holdfast.run(words, { cwd, env });
    const imported = await there("format", "import", file);
    expect(imported, imported.stderr).toMatchObject({ status: 0 });
    const refused = await there("resume", id, "--max", "2");
    expect(refused, refused.stdout + refused.stderr).toMatchObject({
      status: 4,
      stderr: expect.stringContaining(`the imported run ${id}`),
    });
    // What it would execute is shown once, one setting a line.
    expect(refused.stderr.match(/until\.marker/g)).toHaveLength(1);
    expect(refused.stderr).toMatch(/^ {4}\| .*touch '.*until\.marker'; false/m);
    expect((await there("--quiet", "resume", id, "--max", "2")).stderr).toContain(`\n  the imported run ${id}\nhint:`);
    // A fork is the same imported run under another name.
    expect(await there("fork", id, "--as", "copy")).toMatchObject({ status: 0 });
    expect(await there("resume", "copy", "--max", "2")).toMatchObject({ status: 4 });
    expect(markers()).toEqual([]);

    const trusted = await there("resume", id, "--max", "2", "--trust");
    expect(trusted.stdout + trusted.stderr).toContain("Iteration 2");
    expect(markers()).toEqual(["until.marker"]);
    expect(await there("verify", id)).toMatchObject({ status: 0 });

    // A run that failed at a limit executes again once the limit is raised.
    const failed = await run(["run", "1", "--no-review", "--max-iterations", "1", "--agent", agent]);
    expect(failed, failed.stderr).toMatchObject({ status: 1 });
    expect((await run(["status", "1"])).stderr).toBe("Allow more: holdfast resume issue-1 --max-iterations N\n");
    expect(await run(["format", "export", "issue-1", "--to", "run", "--output", `${file}2`])).toMatchObject({
      status: 0,
    });
    expect(await there("format", "import", `${file}2`)).toMatchObject({ status: 0 });
    expect(await there("resume", "issue-1")).toMatchObject({ status: 1 });
    const planned = await there("resume", "issue-1", "--max-iterations", "2", "--dry-run");
    expect(planned.stdout).toContain("missing for the imported run issue-1: holdfast trust issue-1");
    expect(await there("resume", "issue-1", "--max-iterations", "2")).toMatchObject({
      status: 4,
      stderr: expect.stringContaining("the imported run issue-1"),
    });
  });

  test.skipIf(!canFakeTerminal())("at a terminal they are shown and asked about once", async () => {
    const { place, run, env, markers } = await begin((touch) => `impl:\n  gate: ${touch("gate")}\n`);
    const words = await agentOf(place);
    const typed = (answer: string) =>
      typeInTerminal({
        command: `"${process.execPath}" "${place.holdfast.entry}" ${words.join(" ")}`,
        cwd: place.clone,
        env: { HOME: place.holdfast.directory, GIT_CONFIG_NOSYSTEM: "1", NO_COLOR: "1", ...env },
        answers: [answer],
        question: /\[y\/N\]/,
      });
    const no = await typed("n\n");
    expect(no.status).toBe(4);
    expect(no.output).toMatch(/impl\.gate: touch .* \(holdfast\.config\.yaml:2\): runs a command/);
    expect(markers()).toEqual([]);
    const yes = await typed("y\n");
    expect(yes.status, yes.output).toBe(0);
    expect(markers()).toEqual(["gate.marker"]);
    expect(await run([...words, "--again"])).toMatchObject({ status: 0 });
  });
});

const ASKING = `import { defineWorkflow } from "holdfast";
export default defineWorkflow({
  name: "asking",
  initial: "ask",
  stages: {
    ask: async (context) => {
      const answer = await context.decide({ name: "go", question: "Continue?", options: ["yes", "no"] });
      return { event: answer === "yes" ? "yes" : "no", reason: "you said " + answer };
    },
  },
  transitions: { ask: { yes: "done", no: "fatal" } },
  ends: { done: "done", fatal: "failed" },
  initialState: () => ({}),
});
`;

test("--dry-run prints all that a run would execute, needs no consent and executes nothing", async () => {
  const { place, run, markers } = await begin(
    (touch) => `agent: "command:${touch("agent")}"
models: { review: claude:opus }
agents: { args: { claude: [--verbose-marker] } }
errors: { fallback: { agents: ["command:${touch("fallback")}"] } }
impl: { gate: "${touch("gate")}", yolo: true }
store: ../outside
workspace: { worktrees: ../trees }
mirror: { format: impl-json, directory: ../mirror }
forge: { kind: local, path: ../other.git }
`,
  );
  const { plan } = JSON.parse((await run(["run", "--task", "Show", "--dry-run", "--json"])).stdout);
  const { uses } = plan;
  expect(uses.agents.map(({ role }: { role: string }) => role)).toEqual(["impl", "review", "fallback"]);
  const [impl, review] = uses.agents;
  expect(impl.argv).toEqual(["/bin/sh", "-c", expect.stringContaining("agent.marker")]);
  expect(review.argv).toEqual(
    expect.arrayContaining(["--model", "opus", "--dangerously-skip-permissions", "--verbose-marker"]),
  );
  expect(review.env).toEqual(expect.arrayContaining(["HOME", "PATH"]));
  expect(uses).toMatchObject({
    gate: expect.stringContaining("gate.marker"),
    yolo: true,
    store: join(place.clone, "../outside"),
    worktrees: join(place.clone, "../trees"),
    mirror: `impl-json in ${join(place.clone, "../mirror")}`,
    forge: `local ${join(place.clone, "../other.git")}`,
  });
  expect(uses.untrusted).toEqual(expect.arrayContaining(["agent", "agents.args", "impl.gate", "impl.yolo", "store"]));
  const shown = await run(["run", "--task", "Show", "--dry-run"]);
  expect(shown.stdout).toContain("Would use");
  expect(shown.stdout).toMatch(/consent +missing for/);
  expect(markers()).toEqual([]);
  expect(
    ["outside", "trees", "mirror", "other.git"].filter((name) => existsSync(join(place.clone, "..", name))),
  ).toEqual([]);
});
