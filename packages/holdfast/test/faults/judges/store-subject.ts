import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Judge } from "../harness/sweep.ts";
import type { Subject } from "../harness/subject.ts";
import { writerCommand } from "../harness/writer.ts";
import { parsePrinted } from "../writers/printed.ts";
import { judgeStore, resumeStore } from "./judge-store.ts";
import { openStore } from "./open-store.ts";

export type StorePlan = "new-store" | "with-history" | "stubborn" | "steady" | "other-host";

export function storeSubject(plan: StorePlan): Subject {
  return {
    async prepare(root) {
      if (plan === "new-store" || plan === "stubborn") return [];
      const [file = "", ...args] = await writerCommand("store-writer", storeIn(root), "new-store");
      const { stdout } = await promisify(execFile)(file, args);
      return stdout.split("\n").filter((line) => line !== "");
    },
    command: (root) => writerCommand("store-writer", storeIn(root), plan),
    judge: (earlier) => judgeIn(earlier),
  };
}

function judgeIn(earlier: readonly string[]): Judge {
  return async ({ root, printed }) => {
    const directory = storeIn(root);
    const open = () => openStore(directory);
    const { problems, found } = await judgeStore({ open, directory, printed: parsePrinted([...earlier, ...printed]) });
    return problems.length > 0 ? problems : resumeStore({ open, found });
  };
}

export function storeIn(root: string): string {
  return join(root, "store");
}
