import { MARK_VARIABLE } from "../system/process-table.ts";
import { supervisedVariables } from "../system/watchdog.ts";
import { runProcess, type ProcessResult } from "../system/subprocess.ts";
import { hideSecrets } from "./hide-secrets.ts";
import { parseResponse } from "./parse-response.ts";
import type { ApiAnswer, Transport } from "./transport.ts";

/** `gh api` or `glab api`: the program holds the login, the proxy and the certificates of its user; we only see answers. */
export function createProgramTransport(params: {
  readonly name: "gh" | "glab";
  /** Its path. */
  readonly program: string;
  readonly host: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly fix: string;
  readonly env?: NodeJS.ProcessEnv;
  /** By which what it starts is found; absent: it goes unmarked, whoever started us. */
  readonly mark?: string;
  readonly timeoutMs?: number;
}): Transport {
  const { name, program, host, env = process.env, timeoutMs = 60_000 } = params;
  const headers = Object.entries(params.headers).flatMap(([key, value]) => ["-H", `${key}: ${value}`]);
  return {
    name,
    fix: params.fix,
    async send({ method, path, body }) {
      const input = body === undefined ? [] : ["--input", "-", "-H", "Content-Type: application/json"];
      const result = await runProcess({
        command: program,
        args: ["api", "--include", "--hostname", host, "--method", method, ...headers, ...input, path],
        env: {
          ...quiet(env),
          ...(params.mark === undefined ? {} : { [MARK_VARIABLE]: params.mark, ...supervisedVariables() }),
        },
        timeoutMs,
        ...(body === undefined ? {} : { input: Buffer.from(JSON.stringify(body)) }),
      });
      return answerOf(name, result, timeoutMs);
    },
    marked: (mark) => createProgramTransport({ ...params, mark }),
  };
}

function answerOf(name: string, result: ProcessResult, timeoutMs: number): ApiAnswer {
  const said = hideSecrets(result.stderr.trim().split("\n").slice(0, 3).join("; "));
  if (result.kind === "timed_out")
    return { kind: "lost", reason: `${name} had no answer within ${timeoutMs / 1000} s` };
  if (result.kind === "not_started") return { kind: "no_login", reason: `${name} could not be started: ${said}` };
  const parsed = result.kind === "exited" ? parseResponse(result.stdout.toString("utf8")) : null;
  // It exits with 1 for each status from 300, and tells the status all the same. Success that ends in failure was cut off.
  if (parsed?.kind === "answered" && (result.code === 0 || parsed.status >= 300)) return parsed;
  if (parsed?.kind === "lost") return parsed;
  const reason = said === "" ? `${name} ended with ${result.code ?? result.signal ?? "nothing"}` : `${name}: ${said}`;
  return result.code === 4 || /auth login/.test(said)
    ? { kind: "no_login", reason }
    : { kind: "lost", reason, why: "connection" };
}

/** It must not ask anybody, colour its output, page it, print what it sends, or carry the mark of an outer run. */
function quiet(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(([name]) => !NOISY.test(name));
  return {
    ...Object.fromEntries(kept),
    NO_COLOR: "1",
    GH_PROMPT_DISABLED: "1",
    GH_NO_UPDATE_NOTIFIER: "1",
    GLAB_CHECK_UPDATE: "false",
    NO_PROMPT: "1",
  };
}

const NOISY =
  /^(?:GH_DEBUG|GLAB_DEBUG|DEBUG|GH_FORCE_TTY|CLICOLOR_FORCE|FORCE_COLOR|GH_PAGER|GLAB_PAGER|PAGER|DEBUG_HTTP|GH_REPO|GIT_DIR|GIT_WORK_TREE|HOLDFAST_MARK|HOLDFAST_SUPERVISOR)$/;
