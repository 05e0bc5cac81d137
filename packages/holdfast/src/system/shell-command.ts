/** How the system's shell runs a line that a user wrote. Only for such lines: what a program composes needs no shell. */
export function shellCommand(line: string): { readonly command: string; readonly args: readonly string[] } {
  return process.platform === "win32"
    ? { command: "cmd.exe", args: ["/d", "/s", "/c", line] }
    : { command: "/bin/sh", args: ["-c", line] };
}
