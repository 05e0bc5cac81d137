/** The `init` command: writes a holdfast.config.yaml with explained defaults. */
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { HoldfastError } from "@holdfast/platform/error";
import { writeDurable } from "@holdfast/platform/files";
import { configTemplate } from "../../config/config-template.ts";
import { CONFIG_FILE, findRepositoryRoot, inGitDirectory } from "../../config/load-config.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { escapeText } from "../output/text.ts";

export const spec = {
  name: "init",
  summary: "write a holdfast.config.yaml with explained defaults",
  details: [
    "Not needed: Holdfast works without a config file, and `holdfast setup` writes a short one with what it finds on this machine. The file goes to the root of the repository. One that is there already is never overwritten.",
  ],
  operands: [],
  consent: "reads",
  paths: false,
  flags: {
    "dry-run": { type: "boolean", about: "print the file instead of writing it" },
  },
  examples: [
    { line: "holdfast init", about: "write the file" },
    { line: "holdfast init --dry-run", about: "read it first" },
  ],
  json: '{"path": "...", "written": true | false, "text": "..."}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  if (inGitDirectory(shell.cwd)) {
    throw new HoldfastError({
      code: "WORKSPACE_MISSING",
      message: `There is no worktree in ${shell.cwd}: it is a bare repository or a git directory`,
      hint: "Run this in a worktree of it; settings can also be given as flags and in the environment.",
    });
  }
  const path = join(findRepositoryRoot(shell.cwd) ?? shell.cwd, CONFIG_FILE);
  const text = configTemplate();
  if (input.on("dry-run")) {
    shell.print({ json: () => ({ path, written: false, text }), text: () => text });
    shell.say(`Would be written to ${escapeText(path)}`);
    return "done";
  }
  const written = writeNew(path, text);
  shell.print({
    json: () => ({ path, written, text }),
    text: () =>
      written ? `Wrote ${escapeText(path)}\n` : `${escapeText(path)} is there already; it was not touched.\n`,
  });
  shell.say(
    written
      ? `Every line in it is a default: change what you like, delete the rest.\nCheck it with: ${shell.talk.program} config check`
      : `See what is in force with: ${shell.talk.program} config`,
  );
  return "done";
}

/** The file system decides atomically whether the file is new, so two processes cannot both create it. */
function writeNew(path: string, text: string): boolean {
  try {
    writeDurable({ path, data: Buffer.from(text), mode: "create" });
    // The user commits this file and others read it, so it gets the usual permissions, unlike other files written this
    // way.
    chmodSync(path, 0o666 & ~process.umask());
    return true;
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && cause.code === "EEXIST") return false;
    throw new HoldfastError({
      code: "IO_FAILED",
      message: `Cannot write ${path}`,
      hint: "Check the directory's permissions and free space.",
      cause,
    });
  }
}
