// A repository whose config, hooks and attributes name programs, to prove that Holdfast runs none of them.

import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestRepository } from "./repository.ts";

/** To be committed before the repository is armed, so that they also apply to a checkout. */
export const HOSTILE_ATTRIBUTES = [
  "* filter=evil diff=evil merge=evil text=auto",
  "*.two filter=evil2",
  "*.eq filter=e=v.il",
  "[attr]evilmacro filter=evil",
  "*.three evilmacro\n",
].join("\n");

/**
 * Arms a repository: every place where git's config can name a program names one that leaves a marker file. The returned function lists the
 * markers. Call it after the repository's content is in place, since plain git triggers them.
 */
export function addHostileConfig(repository: TestRepository): () => readonly string[] {
  const folder = join(repository.root, "..", "markers");
  mkdirSync(folder, { recursive: true });
  const trap = (name: string): string => {
    const script = join(folder, `trap-${name}.sh`);
    writeFileSync(script, `#!/bin/sh\ntouch '${join(folder, name)}'\ncat\n`);
    chmodSync(script, 0o755);
    return script;
  };
  const hooks = join(folder, "hooks");
  for (const place of [hooks, join(repository.root, ".git", "hooks")]) {
    mkdirSync(place, { recursive: true });
    for (const hook of HOOKS) {
      writeFileSync(join(place, hook), `#!/bin/sh\ntouch '${join(folder, `hook-${hook}`)}'\n`);
      chmodSync(join(place, hook), 0o755);
    }
  }
  const settings: readonly (readonly [string, string])[] = [
    ["core.hooksPath", hooks],
    ["core.fsmonitor", trap("fsmonitor")],
    ["core.pager", trap("pager")],
    ["core.editor", trap("editor")],
    ["core.askPass", trap("askpass")],
    ["core.sshCommand", trap("ssh")],
    ["core.gitProxy", trap("gitproxy")],
    ["core.alternateRefsCommand", trap("alternates")],
    ["core.untrackedCache", "true"],
    ["credential.helper", `!${trap("credential")}`],
    ["sequence.editor", trap("sequence")],
    ["gpg.program", trap("gpg")],
    ["commit.gpgSign", "true"],
    ["tag.gpgSign", "true"],
    ["log.showSignature", "true"],
    ["diff.external", trap("external-diff")],
    ["diff.evil.command", trap("diff-command")],
    ["diff.evil.textconv", trap("textconv")],
    ["diff.evil.cachetextconv", "true"],
    ["merge.evil.driver", trap("merge")],
    ["filter.evil.clean", trap("clean")],
    ["filter.evil.smudge", trap("smudge")],
    ["filter.evil.required", "true"],
    ["filter.evil2.process", trap("process")],
    ["filter.e=v.il.smudge", trap("smudge-equals")],
    ["filter.e=v.il.clean", trap("clean-equals")],
    ["interactive.diffFilter", trap("interactive")],
    ["protocol.ext.allow", "always"],
    ["remote.origin.url", `ext::${trap("ext")}`],
    ["uploadpack.packObjectsHook", trap("pack-objects")],
    ["submodule.recurse", "true"],
    ["status.submoduleSummary", "true"],
    ["core.logAllRefUpdates", "always"],
    ...ALIASED.map((name): readonly [string, string] => [`alias.${name}`, `!${trap(`alias-${name}`)}`]),
  ];
  for (const [key, value] of settings) repository.git("config", key, value);
  return () => readdirSync(folder).filter((name) => !name.startsWith("trap-") && name !== "hooks");
}

/** Proves that the traps work: plain git, run as a user would, triggers some of them. */
export function listTriggeredHooks(repository: TestRepository): void {
  try {
    repository.git("status");
  } catch {
    // Whether git succeeds under such a config does not matter.
  }
  if (!existsSync(join(repository.root, "..", "markers"))) throw new Error("the repository is not armed");
}

const HOOKS = [
  "applypatch-msg",
  "pre-applypatch",
  "post-applypatch",
  "pre-commit",
  "prepare-commit-msg",
  "commit-msg",
  "post-commit",
  "pre-rebase",
  "post-checkout",
  "post-merge",
  "pre-push",
  "reference-transaction",
  "post-index-change",
  "post-rewrite",
  "pre-auto-gc",
  "push-to-checkout",
  "sendemail-validate",
  "fsmonitor-watchman",
];

const ALIASED = [
  "status",
  "snap",
  "ls-files",
  "update-index",
  "write-tree",
  "commit-tree",
  "worktree",
  "diff-tree",
  "diff-files",
];
