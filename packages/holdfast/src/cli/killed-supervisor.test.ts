import { existsSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { readProcess, readProcessTable } from "../system/process-table.ts";
import { workSuite } from "./testing/work-repository.ts";

/** `kill -9` of the real command, as a person or the kernel does it, and what becomes of the agent that it had started. */

const work = workSuite();

/** One in a session of its own that ignores SIGTERM, one forked twice; then it hangs. Each writes its process id. */
const LONELY = `
setsid sh -c 'trap "" TERM; echo $$ > "$1/session.pid"; exec sleep 600' sh "$1" >/dev/null 2>&1 </dev/null &
sh -c 'setsid sh -c "echo \\$\\$ > \\"\\$1/forked.pid\\"; exec sleep 600" sh "$1" >/dev/null 2>&1 </dev/null &' sh "$1"
echo $$ > "$1/agent.pid"
sleep 600
`;

test.skipIf(readProcessTable() === null)(
  "the agent of a Holdfast that was killed ends by itself, with all that it had started",
  async () => {
    const { clone, ...place } = await work.begin();
    const notes = dirname(clone);
    await writeFile(join(notes, "lonely.sh"), LONELY);
    const agent = `command:sh ${join(notes, "lonely.sh")} ${notes}`;
    const { child } = place.start("run", "1", "--no-review", "--agent", agent);
    const files = ["agent", "session", "forked"].map((name) => join(notes, `${name}.pid`));
    await until(() => files.every((path) => existsSync(path) && readFileSync(path, "utf8").endsWith("\n")));
    const pids = files.map((path) => Number(readFileSync(path, "utf8")));
    expect(pids.map((pid) => readProcess(pid)?.mark ?? "")).toEqual(Array(3).fill(expect.stringContaining("issue-1")));
    child.kill("SIGKILL");
    await until(() => pids.every((pid) => readProcess(pid) === null));
  },
);

/** The limit is generous: a slow machine is no failure. */
async function until(isSo: () => boolean): Promise<void> {
  const limit = performance.now() + 120_000;
  while (!isSo()) {
    if (performance.now() > limit) expect.fail("still not so after two minutes");
    await pause(20);
  }
}
