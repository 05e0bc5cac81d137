import { describe, expect, test } from "vitest";
import { systemClock } from "@holdfast/platform/clock";
import { ACP_SUBJECTS, CAUSE_ROWS, CLI_SUBJECTS, NO_ACP, causeSuite } from "@holdfast/test-support/agents/cause-suite";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { prepareCall } from "@holdfast/testing/agent-contract";
import { createCommandAgent } from "./command.ts";

for (const subject of [...CLI_SUBJECTS, ...ACP_SUBJECTS]) causeSuite(subject);

describe("programs that are not driven over ACP", () => {
  test.skip.for(Object.entries(NO_ACP))("%s: %s", () => undefined);
});

/** A user's command reports only its exit, so most causes look alike from outside. */
describe("why a command fails", () => {
  const shown: Readonly<Record<string, { readonly line: string; readonly idleMs?: number }>> = {
    "500": { line: "echo 'retry later' >&2; exit 75" },
    "529": { line: "echo 'retry later' >&2; exit 75" },
    "a stream that falls silent": { line: "sleep 600", idleMs: 500 },
  };
  for (const { name, cause } of CAUSE_ROWS) {
    const how = shown[name];
    const why = how === undefined ? " (a command reports its exit status, not a cause)" : "";
    test.skipIf(how === undefined)(`${name} is ${cause}${why}`, async (context) => {
      const agent = createCommandAgent({ clock: systemClock });
      const cwd = scratchDirectory(context.onTestFinished);
      const { task } = prepareCall({ cwd }, { model: how?.line ?? "", idleMs: how?.idleMs ?? null });
      expect(await agent.run(task)).toMatchObject({ kind: "failed", cause });
    });
  }
});
