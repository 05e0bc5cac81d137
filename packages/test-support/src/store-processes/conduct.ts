// A child process that executes a run and kills itself with SIGKILL before or after its n-th commit.

import { executeUntilKilled } from "../core/kill-run.ts";

const [directory = "", repository = "", at = "0", moment = "before"] = process.argv.slice(2);
await executeUntilKilled({
  directory,
  repository,
  at: Number(at),
  moment: moment === "after" ? "after" : "before",
  die: () => process.kill(process.pid, "SIGKILL"),
});
