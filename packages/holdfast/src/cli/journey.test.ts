import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";

let journey: Journey;
beforeAll(async () => {
  journey = await startJourney();
});
afterAll(() => journey.holdfast.remove());
beforeEach(() => journey.begin());

const save = (text: string) => journey.runIn(".", ["checkpoint", "--run", "r", "--values", "-"], { input: text });

test("a repository without a store has no runs; this is not a failure", async () => {
  expect(await journey.run("status")).toMatchObject({
    status: 0,
    stdout: "",
    stderr: expect.stringMatching(/^No runs yet\. Start one:\n {2}holdfast run --task/),
  });
  expect(await journey.json("status")).toMatchObject({ runs: [], slots: { limit: 4, used: 0 } });
  expect(await journey.fails(3, "status", "r")).toContain("Nothing is saved here yet");
  expect((await journey.run("list")).stderr).toContain("  holdfast run --task");
  await journey.run("checkpoint", "--run", "r");
  await journey.run("rm", "r", "--force");
  for (const command of ["stop", "output"]) expect(await journey.fails(3, command)).toContain("There are no runs yet");
  expect(await journey.fails(3, "output")).toContain("Start one with `holdfast run`");
});

describe("values that JSON.parse would change are refused with their path", () => {
  test.each([
    ["an integer above 2^53", '{"a": {"ids": [1, 9007199254740993]}}', "/a/ids/1"],
    ["a negative one", '{"n": -9007199254740993}', "/n"],
    ["a key given twice", '{"a": {"b": 1, "b": 2}}', "/a/b"],
    ["the same key, once escaped", '{"a": 1, "\\u0061": 2}', "/a"],
    ["half of a surrogate pair", '{"t": "\\ud800"}', "/t"],
  ])("%s", async (_what, text, path) => {
    const { status, stderr, stdout } = await save(text);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toContain(`at ${path} (line 1)`);
    expect((await journey.run("list", "--json")).stdout).not.toContain('"r"');
  });

  test("from a file too; exact values are saved unchanged", async () => {
    await journey.write("values.json", '{\n  "n": 12345678901234567890\n}\n');
    expect(await journey.fails(2, "checkpoint", "--run", "r", "--values", "values.json")).toContain("at /n (line 2)");
    const values = '{"n":9007199254740991,"f":0.1,"e":1e300,"t":"ü😀"}';
    expect((await save(values)).status).toBe(0);
    expect(JSON.parse((await journey.run("show", "r@latest", "--values")).stdout)).toEqual(JSON.parse(values));
  });
});

test("an imported run file of checkpoints saved by hand proposes no resume, which would be refused", async () => {
  await journey.run("checkpoint", "--run", "r");
  const file = `${journey.repository()}.run`;
  await journey.run("format", "export", "r", "--to", "run", "--output", file);
  expect((await journey.run("format", "import", file)).stderr).toBe(
    "Show it:     holdfast show r\nIts checkpoints: holdfast list r\n",
  );
});

test("a checkpoint that does not exist has no tags to list or to remove", async () => {
  await journey.run("checkpoint", "--run", "r");
  await journey.run("tag", "r@1", "works");
  expect(await journey.fails(3, "tag", "r@99")).toContain("no checkpoint 99");
  expect(await journey.fails(3, "tag", "r@99", "works", "--delete")).toContain("no checkpoint 99");
  expect(await journey.json("tag", "r@1")).toMatchObject({ tags: [{ name: "works", sequence: 1 }] });
});
