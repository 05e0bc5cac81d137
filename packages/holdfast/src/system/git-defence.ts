import { devNull } from "node:os";

/**
 * A repository is untrusted text: its config may name programs for hooks, filters, diffs, pagers, monitors and transports. Every git
 * that works on our own account is started with these, whether or not that call could reach any of them.
 */
export const DEFUSED: readonly string[] = [
  "--no-pager",
  ...[
    `core.hooksPath=${devNull}`,
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=",
    "core.sshCommand=false",
    "core.gitProxy=",
    "core.alternateRefsCommand=",
    "core.logAllRefUpdates=false",
    "credential.helper=",
    "diff.external=",
    "interactive.diffFilter=",
    "sequence.editor=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "submodule.recurse=false",
    "protocol.allow=never",
    "protocol.ext.allow=never",
    "safe.bareRepository=explicit",
    "gc.auto=0",
    "maintenance.auto=false",
    // Not indexes: the user's is never written, and ours is a cache that does not outlive a power cut.
    "core.fsync=all,-index",
    "core.fsyncMethod=batch",
  ].flatMap((setting) => ["-c", setting]),
];

/** Ours without what would lead git elsewhere, make it ask a person, or speak another language. */
export function scrubbedEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(([name]) => !/^(GIT_|SSH_ASKPASS|PAGER$|LESS|EDITOR$|VISUAL$)/i.test(name));
  return {
    ...Object.fromEntries(kept),
    LC_ALL: "C",
    GIT_TERMINAL_PROMPT: "0",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_LITERAL_PATHSPECS: "1",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_ALLOW_PROTOCOL: "none",
  };
}
