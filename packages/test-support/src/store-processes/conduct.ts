import { executeUntilKilled } from "../core/kill-run.ts";

/** A process of its own that carries a run and kills itself with SIGKILL at its n-th commit, before or after it. */
const [directory = "", repository = "", at = "0", moment = "before"] = process.argv.slice(2);
await executeUntilKilled({
  directory,
  repository,
  at: Number(at),
  moment: moment === "after" ? "after" : "before",
  die: () => process.kill(process.pid, "SIGKILL"),
});
