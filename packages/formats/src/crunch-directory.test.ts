import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import type { Trigger } from "@holdfast/core/checkpoint";
import { defaultRetention } from "@holdfast/core/retention";
import { type CrunchLimits, type DirectoryAction, planCrunchWrite } from "./crunch-directory.ts";
import { type CrunchDirectory, type CrunchListing, readCrunchDirectory } from "./crunch-directory.ts";
import type { ExternalCheckpoint, ExternalFile } from "./format.ts";

const ROOT = join(import.meta.dirname, "../golden-directory/42");
const OLD = "CP-enrich-20250114-a3f2.yaml";
const NEW = "CP-enrich-20250114-b4c5.yaml";

/** A directory as a value: the content of each name, and the target of the link. */
interface World {
  readonly files: ReadonlyMap<string, Uint8Array>;
  readonly link: string | null;
}

const golden: World = {
  files: new Map(readdirSync(ROOT).map((name) => [name, new Uint8Array(readFileSync(join(ROOT, name)))])),
  link: NEW,
};

function listing(world: World): CrunchListing {
  const files = [...world.files].map(([name, bytes]): ExternalFile => ({
    path: `.claude/crunch/42/checkpoints/${name}`,
    bytes,
    compression: "none",
  }));
  return { files, link: world.link };
}

const look = (world: World): CrunchDirectory => readCrunchDirectory(listing(world));

function apply(world: World, actions: readonly DirectoryAction[]): World {
  const files = new Map(world.files);
  let { link } = world;
  for (const action of actions) {
    if (action.name === "latest") link = null;
    if (action.kind === "write") files.set(action.name, action.bytes);
    else files.delete(action.name);
    if (action.kind === "link") link = action.target;
  }
  return { files, link };
}

function without(world: World, ...names: readonly string[]): World {
  return { ...world, files: new Map([...world.files].filter(([name]) => !names.includes(name))) };
}

function replaced(world: World, name: string, change: (text: string) => string): World {
  const text = new TextDecoder().decode(world.files.get(name));
  return { ...world, files: new Map(world.files).set(name, new TextEncoder().encode(change(text))) };
}

function textOf(world: World, name: string): string {
  return new TextDecoder().decode(world.files.get(name));
}

function idOf(name: string): string {
  return name.replace(".yaml", "");
}

function newest(directory: CrunchDirectory): ExternalCheckpoint {
  const found = directory.checkpoints.at(-1)?.checkpoint;
  if (found === undefined) throw new Error("the list is empty");
  return found;
}

/** Limits for the given triggers, and no limit for the others; sizes are those of the bytes. */
function limits(
  keep: Readonly<Partial<Record<Trigger, number>>>,
  more: { readonly maxBytes?: number; readonly ours?: readonly string[] } = {},
): CrunchLimits {
  const rules = Object.entries(keep).map(([trigger, count]) => [trigger, { keep: count, per: "run" }]);
  return {
    retention: {
      ...defaultRetention,
      perTrigger: Object.fromEntries(rules),
      defaultKeep: { keep: "all", per: "run" },
      maxAgeDays: null,
      maxBytes: more.maxBytes ?? null,
    },
    ours: new Set(more.ours ?? [OLD, NEW].map(idOf)),
    sizeOf: (name, bytes) => (bytes ?? golden.files.get(name) ?? new Uint8Array()).length,
  };
}

describe("limits of crunch's configuration on a directory", () => {
  const next = (id: string, more: Partial<ExternalCheckpoint> = {}): ExternalCheckpoint => ({
    ...newest(look(golden)),
    id,
    createdAt: "2025-01-14T12:00:00.000Z",
    ...more,
  });

  test("files beyond the count are removed with their index entry, and not written again", () => {
    const ours = ["CP-enrich-20250114-a3f2", "CP-enrich-20250114-b4c5", "CP-1"];
    const one = { add: [next("CP-1")], limits: limits({ batch_complete: 1 }, { ours }), links: true };
    const plan = planCrunchWrite({ directory: look(golden), ...one });
    const after = apply(golden, plan.actions);
    expect([...after.files.keys()].toSorted()).toEqual(["CP-1.yaml", OLD, "index.yaml"]);
    expect(parse(textOf(after, "index.yaml"))).toMatchObject({ total_checkpoints: 2, latest: "CP-1" });
    expect(look(after).index.problems).toEqual([]);
    expect(plan.limited).toEqual([expect.objectContaining({ path: "checkpoints", why: expect.stringContaining("1") })]);
    const old = newest(look(golden));
    const again = planCrunchWrite({ directory: look(after), ...one, add: [old, ...one.add] });
    expect(again.actions.filter(({ kind, name }) => kind !== "write" || name === NEW)).toEqual([]);
  });

  test("checkpoints of other writers remain under every rule", () => {
    const params = { add: [next("CP-1")], limits: limits({ batch_complete: 1, stage: 0 }, { ours: ["CP-1"] }) };
    const plan = planCrunchWrite({ directory: look(golden), ...params, links: true });
    expect(plan.actions.filter(({ kind }) => kind === "remove")).toEqual([]);
    expect(plan.limited).toEqual([]);
  });

  test("over the size limit the oldest are removed first; a single larger one is not written, which is reported", () => {
    const size = [...golden.files].reduce((sum, [name, bytes]) => sum + (name.startsWith("CP-") ? bytes.length : 0), 0);
    const tight = planCrunchWrite({
      directory: look(golden),
      add: [],
      limits: limits({}, { maxBytes: size - 1 }),
      links: true,
    });
    expect(tight.actions.at(-1)).toEqual({ kind: "remove", name: OLD });
    const huge = next("CP-huge", { planes: { ...next("x").planes, extensions: { outputs: { a: "x".repeat(size) } } } });
    const refused = planCrunchWrite({
      directory: look(golden),
      add: [huge],
      limits: limits({}, { maxBytes: size, ours: ["CP-huge"] }),
      links: true,
    });
    expect(refused.actions).toEqual([]);
    expect(refused.limited).toEqual([expect.objectContaining({ path: "checkpoints.CP-huge" })]);
  });

  test("compressed files have the matching name, and an existing file keeps its name", () => {
    const there = newest(look(golden));
    const position = { ...there.planes.position, attempts: { enrich: 9 } };
    const add = [next("CP-1"), { ...there, planes: { ...there.planes, position } }];
    const { actions } = planCrunchWrite({ directory: look(golden), add, suffix: ".gz", links: true });
    expect(actions.map(({ name }) => name)).toEqual([NEW, "CP-1.yaml.gz", "index.yaml", "latest"]);
    const after = look(apply(golden, actions));
    expect(after).toMatchObject({ broken: [], remarks: [], index: { problems: [] }, latest: { name: "CP-1.yaml.gz" } });
  });
});

describe("a directory with both JSON and YAML checkpoints", () => {
  const utf8 = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value, null, 2));
  const oldJson = OLD.replace(".yaml", ".json");
  const mixed: World = {
    files: new Map([
      [oldJson, utf8(parse(textOf(golden, OLD)))],
      [NEW, golden.files.get(NEW) ?? new Uint8Array()],
      ["index.json", utf8({ checkpoints: [{ checkpoint_id: idOf(OLD), trigger: "manual", stars: 5 }] })],
      ["index.yaml", new TextEncoder().encode(`checkpoints:\n  - checkpoint_id: ${idOf(NEW)}\n    trigger: stage\n`)],
    ]),
    link: NEW,
  };

  test("is read from both, and both indexes are corrected", () => {
    const directory = look(mixed);
    expect(directory.checkpoints.map(({ name, checkpoint }) => [name, checkpoint.trigger])).toEqual([
      [oldJson, "manual"],
      [NEW, "stage"],
    ]);
    const after = apply(mixed, planCrunchWrite({ directory, add: [], links: true }).actions);
    expect(parse(textOf(after, "index.yaml"))).toEqual(JSON.parse(textOf(after, "index.json")));
    expect(JSON.parse(textOf(after, "index.json"))).toMatchObject({
      total_checkpoints: 2,
      checkpoints: [{ stars: 5 }, {}],
    });
    expect(planCrunchWrite({ directory: look(after), add: [], links: true }).actions).toEqual([]);
  });

  test("each file keeps the format of its name, and a new one has the format of the newest", () => {
    const [old, last] = look(mixed).checkpoints.map(({ checkpoint }) => checkpoint);
    if (old === undefined || last === undefined) throw new Error("there are two");
    const changed = { ...old, planes: { ...old.planes, position: { ...old.planes.position, stage: "docs" } } };
    const added = { ...last, id: "CP-1", createdAt: "2025-01-14T12:00:00.000Z" };
    const { actions } = planCrunchWrite({ directory: look(mixed), add: [changed, last, added], links: true });
    const after = apply(mixed, actions);
    expect(look(after)).toMatchObject({ broken: [], index: { problems: [] } });
    expect(JSON.parse(textOf(after, oldJson))).toMatchObject({ workflow_state: { current_phase: "docs" } });
    expect(textOf(after, NEW)).toMatch(/^checkpoint_id: /);
    expect(textOf(after, "CP-1.yaml")).toMatch(/^checkpoint_id: /);
  });

  test("if both formats have the same checkpoint, one counts; only a difference is reported", () => {
    const twins = { ...mixed, files: new Map(mixed.files).set(OLD, golden.files.get(OLD) ?? new Uint8Array()) };
    expect(look(twins)).toMatchObject({ broken: [], checkpoints: [{ name: OLD }, { name: NEW }] });
    const unequal = replaced(twins, oldJson, (text) => text.replace('"enrich"', '"docs"'));
    expect(look(unequal).broken.map(({ name }) => name)).toEqual([oldJson]);
  });
});

describe("a crunch directory", () => {
  test("is read in order, with the triggers that only its index has", () => {
    const directory = look(golden);
    expect(directory.checkpoints.map(({ name, checkpoint }) => [name, checkpoint.trigger])).toEqual([
      [OLD, "stage"],
      [NEW, "batch_complete"],
    ]);
    expect(directory).toMatchObject({
      broken: [],
      index: { files: [{ name: "index.yaml" }], problems: [] },
      latest: { name: NEW, target: NEW, as: "link" },
      remarks: [],
    });
    expect(planCrunchWrite({ directory, add: [], links: true }).actions).toEqual([]);
  });

  test.each([
    ["missing", without(golden, "index.yaml"), ["the index is missing"]],
    ["cut", replaced(golden, "index.yaml", (text) => text.slice(0, 150)), [expect.stringContaining("index.yaml")]],
    [
      "behind",
      replaced(golden, "index.yaml", (text) => text.replace(/ {2}- checkpoint_id: .*b4c5[^]*(?=latest)/, "")),
      ["it does not list CP-enrich-20250114-b4c5"],
    ],
    [
      "ahead",
      without(golden, NEW),
      [
        "it lists CP-enrich-20250114-b4c5, which has no readable file",
        "its latest is wrong",
        "its total_checkpoints is wrong",
      ],
    ],
    [
      "wrong in a phase",
      replaced(golden, "index.yaml", (text) => text.replace("phase: enrich", "phase: docs")),
      ["it is wrong about CP-enrich-20250114-a3f2"],
    ],
    [
      "in another order",
      replaced(golden, "index.yaml", (text) => {
        const [head = "", one = "", two = ""] = text.split(/(?= {2}- checkpoint_id)/);
        const [entry = "", tail = ""] = two.split(/(?=latest)/);
        return `${head}${entry}${one}${tail}`;
      }),
      ["it has another order"],
    ],
  ])("with an index that is %s gets a correct one", (_, world, problems) => {
    const directory = look(world);
    expect(directory.index.problems).toEqual(problems);
    const { actions } = planCrunchWrite({ directory, add: [], links: true });
    const repaired = look(apply(world, actions));
    expect(repaired.index.problems).toEqual([]);
    expect(repaired.latest.target).toBe(repaired.latest.name);
    expect(planCrunchWrite({ directory: repaired, add: [], links: true }).actions).toEqual([]);
  });

  test("rebuilt without an index, it omits unknown triggers", () => {
    const world = without(golden, "index.yaml");
    const { actions } = planCrunchWrite({ directory: look(world), add: [], links: true });
    const index = parse(textOf(apply(world, actions), "index.yaml"));
    expect(index).toEqual({
      issue_number: 42,
      checkpoints: [
        {
          checkpoint_id: "CP-enrich-20250114-a3f2",
          created_at: "2025-01-14T10:00:00Z",
          phase: "enrich",
          can_resume: true,
        },
        {
          checkpoint_id: "CP-enrich-20250114-b4c5",
          created_at: "2025-01-14T10:30:00Z",
          phase: "enrich",
          can_resume: true,
        },
      ],
      latest: "CP-enrich-20250114-b4c5",
      total_checkpoints: 2,
    });
  });

  test("the index marks a failed run as not resumable, like its document", () => {
    const directory = look(golden);
    const recovery = { can_resume: false, resume_from: "enrich", prerequisites_met: true, warnings: ["It failed"] };
    const next: ExternalCheckpoint = {
      ...newest(directory),
      id: "CP-next",
      createdAt: "2025-01-14T12:00:00.000Z",
      described: { stage: "enrich", issue: {}, members: { recovery_info: recovery } },
    };
    const { actions } = planCrunchWrite({ directory, add: [next], links: true });
    const { checkpoints } = parse(textOf(apply(golden, actions), "index.yaml"));
    expect(checkpoints.at(-1)).toMatchObject({ checkpoint_id: "CP-next", can_resume: false });
  });

  test("keeps foreign entries of the index", () => {
    const world = replaced(golden, "index.yaml", (text) =>
      text
        .replace("issue_number: 42", "owner: ada\nissue_number: 41")
        .replace("    phase: enrich", "    phase: enrich\n    stars: 5"),
    );
    const { actions } = planCrunchWrite({ directory: look(world), add: [], links: true });
    expect(parse(textOf(apply(world, actions), "index.yaml"))).toMatchObject({
      owner: "ada",
      issue_number: 42,
      checkpoints: [{ stars: 5, trigger: "phase_transition" }, { trigger: "batch_complete" }],
    });
  });

  test("a new checkpoint: first the file, then the index, then latest, and removals last", () => {
    const directory = look(golden);
    const next: ExternalCheckpoint = {
      ...newest(directory),
      id: "CP-ready-20250114T110000-1",
      createdAt: "2025-01-14T11:00:00.000Z",
      trigger: "stage",
      planes: {
        ...newest(directory).planes,
        position: { ...newest(directory).planes.position, stage: "ready", attempts: {} },
      },
    };
    const plan = planCrunchWrite({ directory, add: [next], limits: limits({ stage: 1 }), links: true });
    expect(plan.actions.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
      "write CP-ready-20250114T110000-1.yaml",
      "write index.yaml",
      "link latest",
      `remove ${OLD}`,
    ]);
    expect(plan.losses.map((one) => [one.id, one.losses.map((loss) => loss.path).toSorted()])).toEqual([
      [next.id, ["extensions.crunch", "extensions.recovery", "inputs.issue"]],
    ]);
    const after = look(apply(golden, plan.actions));
    expect(after.index.problems).toEqual([]);
    expect(newest(after)).toMatchObject({ id: next.id, trigger: "stage", planes: { position: { stage: "ready" } } });
    expect(parse(textOf(apply(golden, plan.actions), "CP-ready-20250114T110000-1.yaml"))).toMatchObject({
      workflow_state: { current_phase: "ready", current_state_label: "state:ready" },
      recovery_info: { can_resume: true, resume_from: "ready" },
    });
  });

  test("stopped after any action, it is consistent, and the same plan completes it", () => {
    const directory = look(golden);
    const next = { ...newest(directory), id: "CP-next", createdAt: "2025-01-14T12:00:00.000Z" };
    const [first] = directory.checkpoints;
    if (first === undefined) throw new Error("there are two");
    // A run adds all its checkpoints, so their triggers are known even if the index has lost them.
    const params = { add: [first.checkpoint, next], limits: limits({ stage: 0 }) };
    for (const links of [true, false]) {
      const { actions } = planCrunchWrite({ directory, ...params, links });
      const wanted = apply(golden, actions);
      for (let done = 0; done <= actions.length; done += 1) {
        const stopped = apply(golden, actions.slice(0, done));
        const found = look(stopped);
        expect(found.broken).toEqual([]);
        expect(found.checkpoints.map(({ checkpoint }) => checkpoint.id)).toContain(
          found.latest.target === null ? newest(found).id : found.latest.target.replace(".yaml", ""),
        );
        const again = planCrunchWrite({ directory: found, ...params, links });
        const completed = apply(stopped, again.actions);
        expect([...completed.files.keys()].toSorted()).toEqual([...wanted.files.keys()].toSorted());
        expect(textOf(completed, "index.yaml")).toBe(textOf(wanted, "index.yaml"));
        expect(look(completed).latest).toEqual(look(wanted).latest);
      }
    }
  });

  test("without symbolic links, latest is a file with the name, and is understood", () => {
    const world = { ...golden, link: null };
    const plan = planCrunchWrite({ directory: look(world), add: [], links: false });
    expect(plan.actions).toEqual([{ kind: "write", name: "latest", bytes: new TextEncoder().encode(`${NEW}\n`) }]);
    const after = look(apply(world, plan.actions));
    expect(after.latest).toEqual({ name: NEW, target: NEW, as: "file" });
    expect(planCrunchWrite({ directory: after, add: [], links: false }).actions).toEqual([]);
  });

  test("a damaged file is named, kept, and never overwritten", () => {
    const world = replaced(golden, NEW, (text) => text.slice(0, 60));
    const directory = look(world);
    expect(directory.broken.map(({ name }) => name)).toEqual([NEW]);
    expect(directory.latest.name).toBe(OLD);
    const plan = planCrunchWrite({ directory, add: [], links: true });
    expect(plan.actions.some(({ name }) => name === NEW)).toBe(false);
    const same = { ...newest(directory), id: "CP-enrich-20250114-b4c5" };
    expect(() => planCrunchWrite({ directory, add: [same], links: true })).toThrow(
      expect.objectContaining({ code: "USAGE" }),
    );
  });

  test("an empty directory gets all its files, and a JSON one stays JSON", () => {
    const empty: World = { files: new Map(), link: null };
    expect(planCrunchWrite({ directory: look(empty), add: [], links: true }).actions.map(({ name }) => name)).toEqual([
      "index.yaml",
    ]);
    const json = apply(
      { files: new Map([["index.json", new TextEncoder().encode('{"checkpoints": []}')]]), link: null },
      [],
    );
    const plan = planCrunchWrite({
      directory: look(json),
      add: [newest(look(golden))],
      links: false,
    });
    expect(plan.actions.map(({ name }) => name)).toEqual(["CP-enrich-20250114-b4c5.json", "index.json", "latest"]);
    expect(JSON.parse(textOf(apply(json, plan.actions), "index.json"))).toMatchObject({ total_checkpoints: 1 });
  });

  test("reading never throws, whatever the content", () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc
        .constantFrom("", "a: 1\n", "checkpoints: []\n", "checkpoints: 3\n", "[")
        .map((text) => new TextEncoder().encode(text)),
      fc.constantFrom(...golden.files.values()),
    );
    const names = fc.constantFrom("index.yaml", "index.json", "latest", NEW, OLD, "CP-x.yaml", "notes.txt", "a.json");
    fc.assert(
      fc.property(fc.array(fc.tuple(names, bytes), { maxLength: 5 }), fc.option(names), (files, link) => {
        const directory = look({ files: new Map(files), link });
        const { actions } = planCrunchWrite({ directory, add: [], links: true });
        const after = look(apply({ files: new Map(files), link }, actions));
        expect(after.index.problems).toEqual([]);
        expect(after.broken.map(({ name }) => name)).toEqual(directory.broken.map(({ name }) => name));
      }),
      { numRuns: 100 },
    );
  });
});

test("an equal checkpoint in another spelling keeps its spelling", () => {
  const { actions } = planCrunchWrite({ directory: look(golden), add: [newest(look(golden))], links: true });
  expect(actions.filter(({ name }) => name === NEW)).toEqual([]);
});
