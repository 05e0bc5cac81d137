import { HoldfastError } from "../../core/error.ts";
import type { Commands } from "../../ports/command.ts";
import type { Forge } from "../../ports/forge.ts";
import type { WorkParts } from "../work-parts.ts";
import { eachForgeQuestion, eachRemoteQuestion } from "./each-question.ts";
import type { Wrap } from "./each-question.ts";
import type { Tape } from "./tape.ts";

/** The same parts; what goes out through them and comes back is noted on the tape. For one run each. */
export function recordingParts(parts: WorkParts, tape: Tape): WorkParts {
  return {
    ...parts,
    tape,
    commands: tapedCommands(parts, tape),
    forge: parts.forge === null ? null : tapedForge(parts.forge, tape),
    branches: {
      of: async (worktree) => eachRemoteQuestion(await parts.branches.of(worktree), tapedQuestion(tape)),
      asking: (folder) => parts.branches.asking(folder),
    },
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
        command: tape.mask(command),
        env: Object.fromEntries(Object.entries(env).map(([name, value]) => [name, tape.mask(value)])),
        timeoutMs,
        environment: tape.environment(),
        result: tape.masked(result),
      });
      return result;
    },
  };
}

function tapedForge(forge: Forge, tape: Tape): Forge {
  return eachForgeQuestion(forge, (mark) => tapedForge(forge.marked(mark), tape), tapedQuestion(tape));
}

function tapedQuestion(tape: Tape): Wrap {
  return <A extends readonly unknown[], R>(method: string, ask: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      const about = { kind: "forge", visit: tape.visit, method, args: args.map((arg) => tape.masked(arg)) } as const;
      try {
        const value = await ask(...args);
        tape.note({ ...about, answer: { kind: "answered", value: tape.masked(value ?? null) } });
        return value;
      } catch (error) {
        if (error instanceof HoldfastError) {
          const message = tape.mask(error.message);
          tape.note({ ...about, answer: { kind: "refused", code: error.code, message } });
        }
        throw error;
      }
    };
}
