import { expect, test } from "vitest";
import { runProcess, startProcess } from "./subprocess.ts";

const node = (script: string, ...args: string[]) => ({ command: process.execPath, args: ["-e", script, ...args] });

test("bytes pass unchanged, and no shell interprets arguments", async () => {
  const input = Buffer.from([0, 255, 10, 128]);
  const echo = await runProcess({ ...node("process.stdin.pipe(process.stdout)"), input });
  expect(echo).toMatchObject({ kind: "exited", code: 0 });
  expect(echo.stdout.equals(input)).toBe(true);
  const quoted = await runProcess(node("process.stdout.write(process.argv[1])", "$(touch /tmp/x); `id` \"'"));
  expect(quoted.stdout.toString()).toBe("$(touch /tmp/x); `id` \"'");
});

test("a failure is a value with its code and message", async () => {
  const result = await runProcess(node("console.error('why'); process.exit(7)"));
  expect(result).toMatchObject({ kind: "exited", code: 7, stderr: "why\n" });
});

test("a program that does not exist is not_started", async () => {
  const result = await runProcess({ command: "/nonexistent/program", args: [] });
  expect(result).toMatchObject({ kind: "not_started", code: null });
});

test("a program that ignores its input is judged by its exit code", async () => {
  const result = await runProcess({ ...node("process.exit(0)"), input: Buffer.alloc(5_000_000) });
  expect(result).toMatchObject({ kind: "exited", code: 0 });
});

test("too much output ends it, and output over the limit is dropped", async () => {
  const result = await runProcess({
    ...node("setInterval(() => process.stdout.write('x'.repeat(65536)), 1)"),
    maxOutputBytes: 100_000,
  });
  expect(result.kind).toBe("overflowed");
  expect(result.stdout.length).toBe(100_000);
});

test("a timeout and an abort end the whole process group", async () => {
  // The grandchild holds the pipe open: the result can only arrive when it is dead too.
  const script = `
    const { spawn } = require("node:child_process");
    spawn(process.execPath, ["-e", "process.on('SIGTERM',()=>{});setInterval(()=>{},1000)"], { stdio: "inherit" });
    process.stdout.write("up");
    setInterval(() => {}, 1000);`;
  const timed = await runProcess({ ...node(script), timeoutMs: 300 });
  expect(timed.kind).toBe("timed_out");

  const abort = new AbortController();
  const running = startProcess({ ...node(script), signal: abort.signal });
  running.stdout.once("data", () => abort.abort());
  expect((await running.exit).kind).toBe("aborted");
});

test("an abort before the start never runs the program to its end", async () => {
  const result = await runProcess({ ...node("setInterval(() => {}, 1000)"), signal: AbortSignal.abort() });
  expect(result.kind).toBe("aborted");
});

test.skipIf(process.platform === "win32")(
  "without free file descriptors it is not_started, and no process crashes",
  async () => {
    const script = `
    import { openSync } from "node:fs";
    import { runProcess } from ${JSON.stringify(new URL("subprocess.ts", import.meta.url).href)};
    try { for (;;) openSync("/dev/null"); } catch {}
    const { kind, stderr } = await runProcess({ command: "git", args: ["--version"], input: Buffer.alloc(100_000) });
    process.exitCode = kind === "not_started" && stderr.includes("EMFILE") ? 42 : 1;`;
    const limited = `ulimit -n 60 && exec "$0" --input-type=module -e "$1"`;
    const result = await runProcess({ command: "sh", args: ["-c", limited, process.execPath, script] });
    expect(result).toMatchObject({ kind: "exited", code: 42, stderr: "" });
  },
);
