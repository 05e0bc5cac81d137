import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { REAL_CLAUDE, openClaudeScene } from "@holdfast/test-support/agents/real-agents";
import { workSuite } from "@holdfast/test-support/cli-repositories";

const suite = workSuite();
const why = REAL_CLAUDE.kind === "absent" ? ` (${REAL_CLAUDE.why})` : "";

test.skipIf(REAL_CLAUDE.kind === "absent")(
  `a hook in the repository's .claude/settings.json runs with the user's consent only${why}`,
  async ({ onTestFinished }) => {
    const place = await suite.begin();
    const home = join(place.clone, "..");
    const marker = join(home, "hook.marker");
    const command = `touch '${marker}'`;
    await mkdir(join(place.clone, ".claude"));
    const hooks = { SessionStart: [{ hooks: [{ type: "command", command }] }] };
    await writeFile(join(place.clone, ".claude/settings.json"), JSON.stringify({ hooks }));
    await place.git("add", "-A");
    await place.git("commit", "-qm", "hook");
    const script = { rules: [{ match: /(?:)/, steps: [{ text: "done" }] }] };
    const scene = await openClaudeScene({ script, later: onTestFinished });
    const env = { ...scene.env, HOLDFAST_TRUST: "", XDG_STATE_HOME: join(home, "state") };
    const words = ["--workflow", "ralph", "--task", "Loop", "--until", `test -e '${marker}'`, "--max", "1"];
    const run = (...more: readonly string[]) =>
      place.holdfast.run(["run", ...words, "--agent", "claude", ...more], { cwd: place.clone, env });
    const refused = await run();
    expect(refused, refused.stdout + refused.stderr).toMatchObject({
      status: 4,
      stderr: expect.stringContaining(".claude/settings.json"),
    });
    expect(scene.server.requests).toEqual([]);
    expect(existsSync(marker)).toBe(false);
    const trusted = await run("--trust");
    expect(trusted, trusted.stdout + trusted.stderr).toMatchObject({ status: 0 });
    expect(existsSync(marker)).toBe(true);
  },
);
