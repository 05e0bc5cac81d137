import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { Finished } from "@holdfast/test-support/built-command";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { canFakeTerminal, typeInTerminal } from "@holdfast/test-support/typed-terminal";
import { openHoldfast } from "../open.ts";
import { loadCommands } from "./command-table.ts";

const COMMANDS = await loadCommands();

/** Colours that we use ourselves and others, a window title, cursor movement, DEL, C1 and bidirectional controls. */
const HOSTILE = "\x1b[31mFORGED\x1b[39m\x1b[35m\x1b[2J\x1b]0;title\x07\r\b\x7f\x9b1m\x85\u202eab\u2066c\u200f";
/** Git and file systems allow these in names. */
const HOSTILE_REF = "b\x9b1m\u202eab\u2066";

const suite = workSuite();
const began: Finished[] = [];
let place: WorkPlace;
beforeAll(async () => {
  place = await suite.begin();
  await place.git("checkout", "-q", "-b", HOSTILE_REF);
  await using holdfast = await openHoldfast({ cwd: place.clone, pretend: true });
  const { forge } = await holdfast.work.adapters();
  const body = `Body ${HOSTILE}\n`;
  const issue = await forge?.createIssue({
    title: `Title ${HOSTILE.replaceAll("\r", "")}`,
    body,
    labels: [],
    key: "hostile",
  });
  const agent = await place.agent([
    {
      ...GOOD,
      edits: [{ do: "write", path: `${HOSTILE.replaceAll("/", "")}.txt`, text: `${HOSTILE}\n` }],
      finalize: { title: `Done ${HOSTILE}`, body: `Body ${HOSTILE}` },
      reply: HOSTILE,
    },
  ]);
  await writeFile(join(place.clone, `file ${HOSTILE}.txt`), `${HOSTILE}\n`);
  const saved = await place.run("checkpoint", "--run", "mine", "--name", `Name ${HOSTILE}`);
  expect(saved).toMatchObject({ status: 0 });
  const ran = await place.run("run", String(issue?.number), "--agent", agent);
  expect(ran.stdout).toContain(`issue-${issue?.number}`);
  began.push(saved, ran);
}, 300_000);

test("actions on them are reported without them", () => {
  for (const finished of began) expectClean(finished, "checkpoint, run");
});

test.each(
  sampleBySeed(
    COMMANDS.map(({ spec }) => spec),
    12,
  ),
)(
  "$name: no control character of an argument is printed",
  async (spec) => {
    const operands = spec.operands.length === 0 ? [HOSTILE] : spec.operands.map(() => HOSTILE);
    const flags = Object.entries(spec.flags).flatMap(([name, flag]) =>
      flag.type === "text" && flag.choices === undefined ? [`--${name}`, HOSTILE] : [],
    );
    for (const line of [operands, ["--json", ...flags, ...operands]]) {
      const finished = await place.holdfast.run([spec.name, ...line], { cwd: place.clone, env: { FORCE_COLOR: "1" } });
      expectClean(finished, `${spec.name} ${JSON.stringify(line)}`);
    }
  },
  120_000,
);

describe("names, titles and texts that are stored", () => {
  const lines = [
    ["list"],
    ["list", "mine"],
    ["status"],
    ["status", "mine"],
    ["status", "2"],
    ["show", "mine"],
    ["show", "mine@1"],
    ["show", "2"],
    ["events", "mine"],
    ["events", "2"],
    ["list", "--workflow", "ralph"],
    ["checkpoint", "--dry-run"],
    ["restore", "mine@1", "--dry-run"],
    ["diff", "mine@1", "--stat"],
    ["doctor"],
  ];
  test.each(lines.map((line) => ({ line: line.join(" "), words: line })))(
    "$line",
    async ({ words }) => {
      for (const more of [[], ["--json"]]) {
        const env = { FORCE_COLOR: more.length === 0 ? "1" : "" };
        expectClean(await place.holdfast.run([...words, ...more], { cwd: place.clone, env }), words.join(" "));
      }
    },
    120_000,
  );

  test("a document holds them unchanged", async () => {
    expect((await place.json("show", "mine@1")).checkpoint.name).toBe(`Name ${HOSTILE}`);
  }, 60_000);

  test("a patch for another program keeps its bytes", async () => {
    await place.run("checkpoint", "--run", "mine");
    await writeFile(join(place.clone, "README.md"), `${HOSTILE}\n`);
    expect((await place.run("diff", "mine@latest", "--", "README.md")).stdout).toContain(`+${HOSTILE}\n`);
  }, 60_000);
});

test.skipIf(!canFakeTerminal())(
  "a question shows them escaped (needs util-linux script)",
  async () => {
    const { output } = await typeInTerminal({
      command: `"${process.execPath}" "${place.holdfast.entry}" restore mine@1`,
      cwd: place.clone,
      env: { HOME: place.holdfast.directory, HOLDFAST_TRUST: "1", LANG: "C.UTF-8" },
      answers: ["n\n"],
      question: /\[y\/N\]/,
    });
    expect(output).toContain("[y/N]");
    expect(output).not.toContain("\x1b[31mFORGED");
    expect(output).not.toMatch(/[\x80-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]/);
  },
  120_000,
);

/** No control character but line ends and tabs, and no colour but ours, none of which is around hostile text. */
function expectClean({ stdout, stderr }: Finished, what: string): void {
  for (const text of [stdout, stderr]) {
    expect(text, what).not.toContain("\x1b[31mFORGED");
    const plain = text.replaceAll(OWN_STYLE, "");
    // eslint-disable-next-line no-control-regex
    expect(plain, what).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]/);
  }
}

// eslint-disable-next-line no-control-regex
const OWN_STYLE = /\x1b\[(?:1|2|22|31|32|33|36|39)m/g;
