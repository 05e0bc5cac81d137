import { mkdirSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { GIT_FLOOR } from "../core/git-floor.ts";
import { scratchDirectory } from "../testing/store-contract/scratch-directory.ts";
import { createTestRepository } from "../testing/workspace-repository.ts";
import { openGitWorkspaces } from "./git-workspaces.ts";

test("a git that is too old is told at the first use, with the version that is needed", async () => {
  const repository = createTestRepository();
  onTestFinished(repository.dispose);
  const path = process.env["PATH"] ?? "";
  const bin = join(scratchDirectory(onTestFinished), "bin");
  mkdirSync(bin);
  const real = `PATH='${path}' exec git "$@"`;
  writeFileSync(
    join(bin, "git"),
    `#!/bin/sh\nif [ "$*" = --version ]; then echo git version 2.37.7; else ${real}; fi\n`,
    {
      mode: 0o755,
    },
  );
  onTestFinished(() => void (process.env["PATH"] = path));
  process.env["PATH"] = `${bin}${delimiter}${path}`;
  const refusal = { code: "GIT_MISSING", message: "git version 2.37.7 is too old" };
  await expect(openGitWorkspaces(repository.root)).rejects.toMatchObject(refusal);
  await expect(openGitWorkspaces(repository.root)).rejects.toThrow(
    expect.objectContaining({ hint: expect.stringContaining(GIT_FLOOR) }),
  );
  process.env["PATH"] = path;
  await (await openGitWorkspaces(repository.root)).close();
});
