import { mergeConfig } from "./effective-config.ts";
import type { Setting } from "./effective-config.ts";
import { AGE_RULE, DONE_RULE, neverDroppedText } from "./never-dropped.ts";

/** What `holdfast init` writes: every key with its default and a line that says what it does. */
export function configTemplate(): string {
  const { entries } = mergeConfig({ file: null, env: {}, cwd: "/", storeFlag: undefined });
  const value = (key: string): string => valueText(entries.find((entry) => entry.key === key)?.value ?? "");
  const keeps = entries.flatMap(({ key }) => (key.startsWith("retention.keep.") ? [key] : []));
  return `# Holdfast. Everything here is optional: a key that is absent has the default shown. See: holdfast help config

# Where checkpoints are stored. Default: a directory inside .git, shared by all worktrees, never committed.
# store: ../holdfast-store

# What "holdfast gc" and the daily clean-up may drop. Every drop leaves a tombstone.
${comment(`Never dropped, whatever is written here: ${neverDroppedText()}.`)}
retention:
  # How many to keep, newest first, by the reason a checkpoint was taken: a number, "all", or { keep: 5, per: stage }.
  keep:
${keeps.map((key) => `    ${key.slice("retention.keep.".length)}: ${value(key)}`).join("\n")}
  # A duration (90d, 12h, 2w) or never: ${AGE_RULE}.
  maxAge: ${value("retention.maxAge")}
  # keep_latest or by_rules (the counts above): ${DONE_RULE}.
  onSuccess: ${value("retention.onSuccess")}
  # When a run failed for good: keep_recent (everything of the time below) or by_rules.
  onFailure: ${value("retention.onFailure")}
  recent: ${value("retention.recent")}
  # For the whole store; the oldest that may go, go first. A size (5GB, 500MiB) or none.
  maxBytes: ${value("retention.maxBytes")}
  # Older checkpoints are compressed harder. A duration or never.
  compressAfter: ${value("retention.compressAfter")}

workspace:
  # Untracked files above this are not saved; each checkpoint names the ones it left out.
  maxUntrackedBytes: ${value("workspace.maxUntrackedBytes")}
  # Also save what .gitignore names (build output, dependencies).
  includeIgnored: ${value("workspace.includeIgnored")}
  # Where the worktrees of forks are made. Default: beside the main worktree.
  # worktrees: ../worktrees

gc:
  # Clean up once a day after a checkpoint, by the rules above, and say so when something was dropped.
  auto: ${value("gc.auto")}
`;
}

function valueText(value: Setting["value"]): string {
  return typeof value === "object" ? `{ keep: ${value.keep}, per: ${value.per} }` : String(value);
}

function comment(text: string): string {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > 118) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines.map((line) => `# ${line}`).join("\n");
}
