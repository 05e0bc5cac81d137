import { command } from "./command.ts";
import type { Command } from "./command.ts";
import { agentsSpec } from "./commands/agents/spec.ts";
import { approveSpec } from "./commands/approve/spec.ts";
import { checkpointSpec } from "./commands/checkpoint/spec.ts";
import { convertSpec } from "./commands/convert/spec.ts";
import { exportSpec } from "./commands/export/spec.ts";
import { importSpec } from "./commands/import/spec.ts";
import { mirrorSpec } from "./commands/mirror/spec.ts";
import { schemaSpec } from "./commands/schema/spec.ts";
import { validateSpec } from "./commands/validate/spec.ts";
import { compareSpec } from "./commands/compare/spec.ts";
import { completeSpec } from "./commands/complete/spec.ts";
import { completionSpec } from "./commands/completion/spec.ts";
import { configSpec } from "./commands/config/spec.ts";
import { demoSpec } from "./commands/demo/spec.ts";
import { demoWorkerSpec } from "./commands/demo-worker/spec.ts";
import { diffSpec } from "./commands/diff/spec.ts";
import { doctorSpec } from "./commands/doctor/spec.ts";
import { forkSpec } from "./commands/fork/spec.ts";
import { graftSpec } from "./commands/graft/spec.ts";
import { gcSpec } from "./commands/gc/spec.ts";
import { helpSpec } from "./commands/help/spec.ts";
import { initSpec } from "./commands/init/spec.ts";
import { listSpec } from "./commands/list/spec.ts";
import { logSpec } from "./commands/log/spec.ts";
import { logsSpec } from "./commands/logs/spec.ts";
import { replaySpec } from "./commands/replay/spec.ts";
import { rerunSpec } from "./commands/rerun/spec.ts";
import { restoreSpec } from "./commands/restore/spec.ts";
import { resumeSpec } from "./commands/resume/spec.ts";
import { runSpec } from "./commands/run/spec.ts";
import { setupSpec } from "./commands/setup/spec.ts";
import { showSpec } from "./commands/show/spec.ts";
import { statusSpec } from "./commands/status/spec.ts";
import { loopsSpec } from "./commands/loops/spec.ts";
import { pauseSpec } from "./commands/pause/spec.ts";
import { abortSpec } from "./commands/abort/spec.ts";
import { stopSpec } from "./commands/stop/spec.ts";
import { tagSpec } from "./commands/tag/spec.ts";
import { trustSpec } from "./commands/trust/spec.ts";
import { verifySpec } from "./commands/verify/spec.ts";

/** In the order of the help: work, look, save, go back, other tools, keep in order, set up. Code is loaded when a command is started. */
export const COMMANDS: readonly Command[] = [
  command(runSpec, () => import("./commands/run/run.ts")),
  command(resumeSpec, () => import("./commands/resume/run.ts")),
  command(statusSpec, () => import("./commands/status/run.ts")),
  command(loopsSpec, () => import("./commands/loops/run.ts")),
  command(stopSpec, () => import("./commands/stop/run.ts")),
  command(pauseSpec, () => import("./commands/pause/run.ts")),
  command(abortSpec, () => import("./commands/abort/run.ts")),
  command(approveSpec, () => import("./commands/approve/run.ts")),
  command(logsSpec, () => import("./commands/logs/run.ts")),
  command(demoSpec, () => import("./commands/demo/run.ts")),
  command(listSpec, () => import("./commands/list/run.ts")),
  command(showSpec, () => import("./commands/show/run.ts")),
  command(logSpec, () => import("./commands/log/run.ts")),
  command(diffSpec, () => import("./commands/diff/run.ts")),
  command(compareSpec, () => import("./commands/compare/run.ts")),
  command(checkpointSpec, () => import("./commands/checkpoint/run.ts")),
  command(tagSpec, () => import("./commands/tag/run.ts")),
  command(restoreSpec, () => import("./commands/restore/run.ts")),
  command(forkSpec, () => import("./commands/fork/run.ts")),
  command(graftSpec, () => import("./commands/graft/run.ts")),
  command(replaySpec, () => import("./commands/replay/run.ts")),
  command(rerunSpec, () => import("./commands/rerun/run.ts")),
  command(importSpec, () => import("./commands/import/run.ts")),
  command(exportSpec, () => import("./commands/export/run.ts")),
  command(convertSpec, () => import("./commands/convert/run.ts")),
  command(validateSpec, () => import("./commands/validate/run.ts")),
  command(schemaSpec, () => import("./commands/schema/run.ts")),
  command(mirrorSpec, () => import("./commands/mirror/run.ts")),
  command(verifySpec, () => import("./commands/verify/run.ts")),
  command(gcSpec, () => import("./commands/gc/run.ts")),
  command(doctorSpec, () => import("./commands/doctor/run.ts")),
  command(agentsSpec, () => import("./commands/agents/run.ts")),
  command(setupSpec, () => import("./commands/setup/run.ts")),
  command(initSpec, () => import("./commands/init/run.ts")),
  command(configSpec, () => import("./commands/config/run.ts")),
  command(trustSpec, () => import("./commands/trust/run.ts")),
  command(completionSpec, () => import("./commands/completion/run.ts")),
  command(helpSpec, () => import("./commands/help/run.ts")),
  command(completeSpec, () => import("./commands/complete/run.ts")),
  command(demoWorkerSpec, () => import("./commands/demo-worker/run.ts")),
];
