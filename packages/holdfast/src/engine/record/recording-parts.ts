import { HoldfastError } from "../../core/error.ts";
import { capture } from "../../core/values/index.ts";
import type { Commands } from "../../ports/command.ts";
import type { Forge } from "../../ports/forge.ts";
import type { WorkParts } from "../work-parts.ts";
import type { Tape } from "./tape.ts";

/** The same parts; what goes out through them and comes back is noted on the tape. For one run each. */
export function recordingParts(parts: WorkParts, tape: Tape): WorkParts {
  return {
    ...parts,
    tape,
    commands: tapedCommands(parts, tape),
    forge: parts.forge === null ? null : tapedForge(parts.forge, tape),
  };
}

function tapedCommands({ commands, store }: WorkParts, tape: Tape): Commands {
  const own = `${store.id}/`;
  return {
    endMarked: (mark) => commands.endMarked(mark),
    async run(params) {
      const result = await commands.run(params);
      const { command, mark, timeoutMs, env = {} } = params;
      const [, visit, step] = (mark.startsWith(own) && /^[^/]+\/(\d+)\/(.+)$/s.exec(mark.slice(own.length))) || [];
      tape.note({
        kind: "command",
        visit: visit === undefined ? tape.visit : Number(visit),
        step: step ?? null,
        command,
        env,
        timeoutMs,
        environment: tape.environment(),
        result: capture(result),
      });
      return result;
    },
  };
}

function tapedForge(forge: Forge, tape: Tape): Forge {
  const taped =
    <A extends readonly unknown[], R>(method: string, ask: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      const about = { kind: "forge", visit: tape.visit, method, args: args.map((arg) => capture(arg)) } as const;
      try {
        const value = await ask(...args);
        tape.note({ ...about, answer: { kind: "answered", value: capture(value ?? null) } });
        return value;
      } catch (error) {
        if (error instanceof HoldfastError)
          tape.note({ ...about, answer: { kind: "refused", code: error.code, message: error.message } });
        throw error;
      }
    };
  return eachMethod(forge, (mark) => tapedForge(forge.marked(mark), tape), taped);
}

/** A forge all of whose methods go through `wrap`. */
export function eachMethod(
  forge: Forge,
  marked: Forge["marked"],
  wrap: <A extends readonly unknown[], R>(
    method: string,
    ask: (...args: A) => Promise<R>,
  ) => (...args: A) => Promise<R>,
): Forge {
  const { name, location, lateMs } = forge;
  return {
    name,
    location,
    lateMs,
    marked,
    getIssue: wrap("getIssue", (number: number) => forge.getIssue(number)),
    createIssue: wrap("createIssue", (...args: Parameters<Forge["createIssue"]>) => forge.createIssue(...args)),
    findIssue: wrap("findIssue", (key: string) => forge.findIssue(key)),
    setLabels: wrap("setLabels", (...args: Parameters<Forge["setLabels"]>) => forge.setLabels(...args)),
    findComment: wrap("findComment", (...args: Parameters<Forge["findComment"]>) => forge.findComment(...args)),
    comment: wrap("comment", (...args: Parameters<Forge["comment"]>) => forge.comment(...args)),
    defaultBranch: wrap("defaultBranch", () => forge.defaultBranch()),
    findPullRequest: wrap("findPullRequest", (head: string) => forge.findPullRequest(head)),
    getPullRequest: wrap("getPullRequest", (number: number) => forge.getPullRequest(number)),
    createPullRequest: wrap("createPullRequest", (...args: Parameters<Forge["createPullRequest"]>) =>
      forge.createPullRequest(...args),
    ),
    updatePullRequest: wrap("updatePullRequest", (...args: Parameters<Forge["updatePullRequest"]>) =>
      forge.updatePullRequest(...args),
    ),
    mergePullRequest: wrap("mergePullRequest", (...args: Parameters<Forge["mergePullRequest"]>) =>
      forge.mergePullRequest(...args),
    ),
    checks: wrap("checks", (commit: string) => forge.checks(commit)),
    reviews: wrap("reviews", (number: number) => forge.reviews(number)),
  };
}
