/** Reports that a command waits for a git remote or a database: one that does not answer would look like a hang. */
import type { Asking, Branches } from "@holdfast/core/branch";
import type { DatabaseWait } from "../open-store.ts";
import type { RunFiles } from "../run-files.ts";
import type { Shell } from "./command.ts";
import { exactTime } from "./output/quantities.ts";
import { escapeText } from "./output/text.ts";

/** Reports that the database of a store or a queue does not answer. */
export function reportDatabase({ notify, talk }: Pick<Shell, "notify" | "talk">): (wait: DatabaseWait) => void {
  return ({ location, until }) => {
    const time = exactTime(new Date(until).toISOString(), talk.offset);
    notify(`No answer from ${escapeText(location)}. Waiting until ${time} …`);
  };
}

/** Reports each fetch of files from the remote of `files.remote`. */
export function reportFetches(files: RunFiles | null, notify: Shell["notify"]): void {
  files?.onFetch((run) => notify(`Fetching the files of ${run} from ${escapeText(files.url)} …`));
}

/** Reports that the remote of the branches is slow, once for queries that wait at the same time. */
export function reportWaits(branches: Branches, notify: Shell["notify"]): Branches {
  let waiting = 0;
  let timer: NodeJS.Timeout | undefined;
  const wait = async <T>(answer: Promise<T>): Promise<T> => {
    waiting += 1;
    timer ??= setTimeout(() => notify("Waiting for the git remote …"), SLOW_MS);
    try {
      return await answer;
    } finally {
      waiting -= 1;
      if (waiting === 0) {
        clearTimeout(timer);
        timer = undefined;
      }
    }
  };
  const reported = <T extends Pick<Asking, "fetch" | "lookUpRemote" | "defaultBranch">>(branch: T): T => ({
    ...branch,
    fetch: () => wait(branch.fetch()),
    lookUpRemote: (name) => wait(branch.lookUpRemote(name)),
    defaultBranch: () => wait(branch.defaultBranch()),
  });
  return {
    of: async (worktree) => reported(await branches.of(worktree)),
    asking: async (folder) => reported(await branches.asking(folder)),
  };
}

const SLOW_MS = 10_000;
