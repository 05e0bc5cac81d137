import type { Holdfast } from "../../../app.ts";
import { checkTagName } from "../../../core/checkpoint/address.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Input, Shell } from "../../command.ts";
import type { Exit } from "../../../core/exit.ts";
import { escapeText } from "../../output/escape-text.ts";
import { tagsText } from "./view.ts";
import type { Tag } from "./view.ts";
import type { tagSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof tagSpec)["flags"]>): Promise<Exit> {
  const address = input.operand(0);
  const name = input.operand(1);
  const holdfast = await shell.open({ create: false, writes: name !== undefined && !input.on("dry-run") });
  if (address !== undefined && name !== undefined) {
    return input.on("delete")
      ? deleteTag(shell, holdfast, { address, name, input })
      : addTag(shell, holdfast, { address, name, input });
  }
  if (input.on("delete") || input.on("move")) {
    throw new HoldfastError({
      code: "USAGE",
      message: "No tag is named",
      hint: "Write holdfast tag RUN NAME --delete, or holdfast tag RUN@7 NAME --move.",
    });
  }
  return listTags(shell, holdfast, address);
}

interface TagParams {
  readonly address: string;
  readonly name: string;
  readonly input: Input<(typeof tagSpec)["flags"]>;
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
      message: `The tag ${name} of ${target.run} names checkpoint ${before.sequence} already`,
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
  const { id } = await holdfast.resolveRun(address.split("@")[0] ?? address);
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
  const { id } = await holdfast.resolveRun(address?.split("@")[0]);
  const tags = await readTags(holdfast, id);
  shell.print({
    json: () => ({ tags: tags.map(({ name, run, sequence }) => ({ name, run, sequence })) }),
    text: (page) => (tags.length === 0 ? "" : tagsText(tags, page)),
  });
  if (tags.length === 0)
    shell.say(`${id} has no tags. Name a checkpoint with:\n  ${shell.talk.program} tag ${id}@latest NAME`);
  return "done";
}

/** Tags ride on checkpoint summaries, so the run is read through once. */
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
