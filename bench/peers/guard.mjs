import { spawn } from "node:child_process";

/**
 * Runs a command that stops a server, when the returned function is called or this process ends in any way, even by SIGKILL. The command waits
 * in a process group of its own, which Ctrl-C does not reach, until its standard input closes.
 */
export function stopAtExit(command, args) {
  const guard = spawn("sh", ["-c", 'cat >/dev/null; exec "$@"', "sh", command, ...args], {
    cwd: "/",
    detached: true,
    stdio: ["pipe", "ignore", "inherit"],
  });
  const ended = new Promise((resolve) => guard.once("exit", resolve));
  return async () => {
    guard.stdin.end();
    await ended;
  };
}
