/** The `tag` command: names a checkpoint, or lists the names. */
import { checkTagName } from "@holdfast/core/run";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import type { Holdfast } from "../../holdfast.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import type { Page } from "../output/page.ts";
import { relativeTime } from "../output/quantities.ts";
import { CHECKPOINT_COLUMN } from "../output/run-text.ts";
import { type Column, renderTable } from "../output/table.ts";
import { escapeText } from "../output/text.ts";

export const spec = {
  name: "tag",
  summary: "name a checkpoint, so that it is kept",
  details: [
    "A tag names one checkpoint of a run, and retention never drops a tagged checkpoint. Without NAME the tags of the run are listed.",
  ],
  operands: [
    {
      name: "ADDRESS",
      about: "the checkpoint to name, or the run whose tags to list",
      required: false,
      completes: "address",
    },
    {
      name: "NAME",
      about:
        "the tag: 1 to 64 letters, digits, dots, hyphens or underscores, beginning and ending with a letter or digit; not digits alone, not latest",
      required: false,
      completes: "nothing",
    },
  ],
  consent: "store",
  flags: {
    delete: { type: "boolean", short: "d", about: "remove the tag NAME (the checkpoint stays)" },
    move: { type: "boolean", about: "move NAME here from another checkpoint" },
    "dry-run": { type: "boolean", about: "show what would change, and change nothing" },
  },
  examples: [
    { line: "holdfast tag fix-login@3 works", about: "name checkpoint 3: fix-login@works" },
    { line: "holdfast tag fix-login", about: "list the tags of a run" },
    { line: "holdfast tag fix-login works --delete", about: "remove a tag" },
  ],
  json: '{"tags": [{"name", "run", "sequence"}]} when listing; {"tag": {"name", "run", "sequence"}, "action": "added" | "moved" | "deleted", "dryRun": true | false} otherwise.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const address = input.operand(0);
  const name = input.operand(1);
  const holdfast = await shell.open({ create: false, writes: name !== undefined && !input.on("dry-run") });
  if (address !== undefined && name !== undefined) {
    return input.on("delete")
      ? deleteTag(shell, holdfast, { address, name, input })
      : addTag(shell, holdfast, { address, name, input });
  }
  if (input.on("delete") || input.on("move")) {
    throw usageError("No tag is named", "Run `holdfast tag RUN NAME --delete` or `holdfast tag RUN@7 NAME --move`.");
  }
  return listTags(shell, holdfast, address);
}

interface TagParams {
  readonly address: string;
  readonly name: string;
  readonly input: Input<(typeof spec)["flags"]>;
}

async function addTag(shell: Shell, holdfast: Holdfast, { address, name, input }: TagParams): Promise<Exit> {
  checkTagName(name);
  const target = await holdfast.resolve(address);
  const handle = await holdfast.run(target.run);
  const before = (await readTags(holdfast, target.run)).find((tag) => tag.name === name);
  const dryRun = input.on("dry-run");
  if (before !== undefined && before.sequence !== target.sequence && !input.on("move")) {
    throw new HoldfastError({
      code: "TAG_EXISTS",
      message: `The tag ${name} of ${target.run} already names checkpoint ${before.sequence}`,
      hint: `Choose another name, or move it: holdfast tag ${target.id} ${name} --move`,
    });
  }
  if (!dryRun) {
    const tagging = handle.tag(target.sequence, name, { move: input.on("move") });
    await shell.finish(tagging, { done: () => `${target.id} was tagged` });
  }
  const action = before === undefined || before.sequence === target.sequence ? "added" : "moved";
  const tag: Tag = { name, run: target.run, sequence: target.sequence };
  const would = dryRun ? "Would tag" : "Tagged";
  const from = action === "moved" ? ` (was @${before?.sequence})` : "";
  shell.print({
    json: () => ({ tag, action, dryRun }),
    text: () => `${would} ${target.id} as ${escapeText(name)}${from}: ${target.run}@${escapeText(name)}\n`,
  });
  return "done";
}

async function deleteTag(shell: Shell, holdfast: Holdfast, { address, name, input }: TagParams): Promise<Exit> {
  const id = await runOf(holdfast, address);
  const tags = await readTags(holdfast, id);
  const tag = tags.find((known) => known.name === name);
  if (tag === undefined) {
    const known = tags.map((other) => other.name).join(", ");
    throw new HoldfastError({
      code: "CHECKPOINT_NOT_FOUND",
      message: `Run ${id} has no tag "${name}"`,
      hint: known === "" ? "It has no tags at all." : `Its tags: ${known}.`,
    });
  }
  const dryRun = input.on("dry-run");
  if (!dryRun) await shell.finish((await holdfast.run(id)).untag(name), { done: () => "the tag was removed" });
  const would = dryRun ? "Would remove" : "Removed";
  shell.print({
    json: () => ({ tag, action: "deleted", dryRun }),
    text: () => `${would} tag ${escapeText(name)} (checkpoint ${id}@${tag.sequence} stays)\n`,
  });
  return "done";
}

async function listTags(shell: Shell, holdfast: Holdfast, address: string | undefined): Promise<Exit> {
  const id = await runOf(holdfast, address);
  const tags = await readTags(holdfast, id);
  shell.print({
    json: () => ({ tags: tags.map(({ name, run, sequence }) => ({ name, run, sequence })) }),
    text: (page) => (tags.length === 0 ? "" : tagsText(tags, page)),
  });
  if (tags.length === 0)
    shell.notify(`${id} has no tags. Name a checkpoint with:\n  ${shell.talk.program} tag ${id}@latest NAME`);
  return "done";
}

/** The tags are those of the run, but a checkpoint that is named must exist. */
async function runOf(holdfast: Holdfast, address: string | undefined): Promise<string> {
  if (address?.includes("@") === true) return (await holdfast.resolve(address)).run;
  return (await holdfast.resolveRun(address)).id;
}

/** Tags are part of checkpoint summaries, so all summaries of the run are read once. */
async function readTags(
  holdfast: Holdfast,
  run: string,
): Promise<readonly (Tag & { readonly createdAt: string; readonly label: string | null })[]> {
  const handle = await holdfast.run(run);
  const tags: (Tag & { readonly createdAt: string; readonly label: string | null })[] = [];
  for await (const checkpoint of handle.checkpoints()) {
    for (const name of checkpoint.tags) {
      tags.push({ name, run, sequence: checkpoint.sequence, createdAt: checkpoint.createdAt, label: checkpoint.name });
    }
  }
  return tags;
}

interface Tag {
  readonly name: string;
  readonly run: string;
  readonly sequence: number;
}

function tagsText(
  tags: readonly (Tag & { readonly createdAt: string; readonly label: string | null })[],
  page: Page,
): string {
  const columns: readonly Column[] = [
    { title: "TAG", shrinkTo: 10 },
    CHECKPOINT_COLUMN,
    { title: "TAKEN" },
    { title: "NAME", shrinkTo: 8, optional: true },
  ];
  const rows = tags.map((tag) => [
    { text: tag.name, style: "bold" } as const,
    { text: `${tag.run}@${tag.sequence}` },
    { text: relativeTime(tag.createdAt, page.now), style: "dim" } as const,
    { text: tag.label ?? "" },
  ]);
  return renderTable({ columns, rows }, page);
}
